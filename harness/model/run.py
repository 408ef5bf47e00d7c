"""The recorded run: every value that is persisted. Units are in the names. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from harness.defaults import Profile
from harness.model.device import cpu_numbers, positions
from harness.model.platform import EngineInfo, Gpu, Health, ImageInfo
from harness.model.workload import Workload
from harness.options import Options
from workloads.protocol import Change
from workloads.readings import Window
from workloads.variants import OTHER, kind_of, measures_speed

SCHEMA_VERSION = 2
# The largest plausible value of telemetry: a mask of 64 bits.
MAX_VALUE = 2.0**64
# No model processes samples faster.
MAX_SAMPLES_PER_S = 1e10
# The profile that only checks that everything works.
SMOKE = "smoke"

# Fact reported by a container -> framework whose version it holds.
_FRAMEWORKS = {"tensorflow": "TensorFlow", "xgboost": "XGBoost"}

Scalar = str | int | float | bool

_OUTCOMES = {
    "out-of-memory": "ran out of memory",
    "timeout": "timed out",
    "bad-events": "ended before its measurement was complete",
    "engine-lost": "lost its engine",
    "no-gpu": "found no GPU",
    "interrupted": "was interrupted",
}

# One combination of a sweep's values: (parameter, value) in axis order; () outside a sweep.
Point = tuple[tuple[str, Scalar | None], ...]


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"  # the workload raised or exited non-zero
    OUT_OF_MEMORY = "out-of-memory"
    TIMEOUT = "timeout"
    BAD_EVENTS = "bad-events"  # missing, or in violation of the protocol
    ENGINE_LOST = "engine-lost"
    NO_GPU = "no-gpu"  # TensorFlow did not register the requested GPUs
    INTERRUPTED = "interrupted"

    @property
    def predicate(self) -> str:
        """What happened to a trial with this status, as the predicate of a sentence."""
        return _OUTCOMES.get(self, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryGap:
    """Missing telemetry and the reason; `metric` is "*" if a whole source or device is missing."""

    source: str
    device: str
    metric: str
    start_ns: int
    end_ns: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One source's readings for one device during a trial.

    Attributes:
        t_ns: int64[n], CLOCK_MONOTONIC, ascending.
        columns: metric name -> float64[n], NaN in gaps. Names include units; see harness.model.metrics.

    Raises:
        ValueError: the arrays differ in length, times descend, or a value is beyond MAX_VALUE.
    """

    source: str
    device: str
    t_ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        name = f"{self.source}-{self.device}"
        if self.t_ns.dtype != np.int64 or min(self.t_ns[:1], default=0) < 0:
            raise ValueError(f"{name} has impossible times")
        if (self.t_ns[1:] < self.t_ns[:-1]).any():
            raise ValueError(f"the times of {name} descend")
        for metric, values in self.columns.items():
            if values.shape != self.t_ns.shape:
                raise ValueError(f"{name} has {values.size} values of {metric} at {self.t_ns.size} times")
            if (np.abs(values) > MAX_VALUE).any():
                raise ValueError(f"{name} has an impossible value of {metric}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A named phase of a trial; `variant` is "" for phases shared by all variants."""

    name: str
    variant: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """int64[n] durations of the steps of one window, measured on the host thread."""

    variant: str
    window: int
    step_ns: NDArray[np.int64]
    reading: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number reported by the workload in a reading of a variant, such as test accuracy."""

    variant: str
    name: str
    value: float
    reading: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The checksum of a seeded result, which is the first of a GPU in a reading or differs from its last one.

    Attributes:
        gpu: the number of the GPU in the trial.
        name: "product" or "step".
        t_ns: when it was computed (CLOCK_MONOTONIC).
    """

    variant: str
    gpu: int
    name: str
    t_ns: int
    value: int
    reading: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """int64[n] latencies of one series of requests; fields as in workloads.protocol's "requests" event."""

    variant: str
    scenario: str
    batch_size: int
    rate_per_s: float
    planned: int
    start_ns: int
    end_ns: int
    latency_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantInfo:
    """Parameters of a variant and its changes from the baseline."""

    variant: str
    params: Mapping[str, Any]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantScript:
    """The script of a variant, as it ran.

    Attributes:
        diff: unified diff from the baseline's script.
        text: the whole script of tuned, "" for others.
        fixes: the remedies in it, as variants.
    """

    variant: str
    diff: str
    text: str
    fixes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """One container to run.

    Attributes:
        device: what it runs on, as harness.model.device writes it.
        id: also a folder name. The pattern excludes other paths, since plans are read from untrusted reports.
        params: values of the script's constants, including those of `point`.
    """

    id: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}\Z")]
    workload: str
    device: str
    index: int
    variants: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    point: Point = ()

    @property
    def gpus(self) -> tuple[int, ...]:
        """Positions in the manifest's `gpus` of the GPUs used by the trial."""
        return positions(self.device)

    def trial(self, status: Status, message: str = "") -> Trial:
        """Return a trial with this status and no measurements."""
        return Trial(
            id=self.id,
            workload=self.workload,
            device=self.device,
            index=self.index,
            status=status,
            message=message,
            point=self.point,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The record of one container.

    Attributes:
        message: for users, "" after success.
        started_ns, ended_ns: host CLOCK_MONOTONIC before the container starts and after it ends.
        facts: reported by the container (versions, devices); scalars.
        left_out: planned variant that was not measured -> reason.
        judged: variant with remedies -> why they may not be offered; "" if they may.
    """

    id: str
    workload: str
    device: str
    index: int
    status: Status
    exit_code: int | None = None
    message: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    variants: tuple[VariantInfo, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    scripts: tuple[VariantScript, ...] = ()
    phases: tuple[Phase, ...] = ()
    windows: tuple[Window, ...] = ()
    steps: tuple[StepTimes, ...] = ()
    metrics: tuple[Metric, ...] = ()
    requests: tuple[RequestTimes, ...] = ()
    answers: tuple[Answer, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    judged: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[TelemetryGap, ...] = ()
    telemetry: tuple[Series, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)
    point: Point = ()

    @property
    def framework(self) -> str:
        """Name and version of the framework; "" if the container did not report one."""
        result = (f"{name} {self.facts[fact]}" for fact, name in _FRAMEWORKS.items() if fact in self.facts)
        return next(result, "")

    @property
    def duration_s(self) -> float:
        """How long it took, in seconds."""
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def failed(self) -> bool:
        """Whether it did not succeed. In a sweep, running out of memory is a result, not a failure."""
        return self.status is not Status.OK and not (self.status is Status.OUT_OF_MEMORY and self.point)

    @property
    def skipped(self) -> bool:
        """Whether nothing was measured for reasons that the container gave, such as a script for one GPU only."""
        return self.status is Status.BAD_EVENTS and not self.windows and bool(self.left_out)

    @property
    def partial(self) -> bool:
        """Whether it ended early, after a speed or capability was measured, which counts; parts of a step do not."""
        return self.failed and any(
            measures_speed(window.variant) or kind_of(window.variant) is OTHER for window in self.windows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInfo:
    """The data that a workload trained on; `why` is the reason for this choice.

    `kind` is "real", "procedural", or "synthetic" if the workload generates its own samples. `size_bytes` is
    the total size of its files.
    """

    workload: str
    name: str
    kind: str
    sha256: str
    why: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices per hour; None if not given.

    Attributes:
        machine: the whole machine, whichever device is used.
        cpu, gpu: a machine rented for this kind of device.
        each_gpu: each GPU used by a trial.
        currency: of all prices, e.g. "USD".
    """

    machine: float | None = None
    cpu: float | None = None
    gpu: float | None = None
    each_gpu: float | None = None
    electricity_per_kwh: float | None = None
    currency: str = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything needed to repeat a run.

    Attributes:
        system: MLPerf system-description field -> value ("" if unknown).
        options: as given by the user; profile: as modified by these options.
        rerun_of: id of the run that this one repeats, or "".
        command: the command line that repeats this run exactly.
        prices: used for costs; a report can use others.
        sources: workload -> SHA-256 of the Python files in its script's folder; BESIDE and workload -> of the others;
            "workloads" -> of the package that runs them all; path of a mount -> of its files.
    """

    run_id: str
    created: str
    tfbench_version: str
    commit: str
    command: str
    engine: EngineInfo
    images: tuple[ImageInfo, ...]
    data: tuple[DataInfo, ...]
    gpus: tuple[Gpu, ...]
    system: Mapping[str, str]
    host_facts: Mapping[str, Scalar]
    options: Options
    profile: Profile
    memory_limit_bytes: int = 0
    rerun_of: str = ""
    prices: Prices | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def pinned(self) -> tuple[int, ...]:
        """The CPUs given with --cpus; empty if all may be used."""
        return cpu_numbers(self.options.cpus)

    @property
    def host_cpus(self) -> int | None:
        """Number of CPUs covered by host telemetry: the pinned CPUs, or all."""
        cpus = self.host_facts.get("cpus")
        return len(self.pinned) or (cpus if isinstance(cpus, int) else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The persisted record of one `tfbench bench`; `ended` unless it is in progress or was cut short.

    Attributes:
        in_progress: whether it certainly was when it was read; its current trial is not among `trials`.
    """

    manifest: Manifest
    workloads: tuple[Workload, ...]
    planned: tuple[PlannedTrial, ...]
    trials: tuple[Trial, ...]
    ended: bool = False
    in_progress: bool = False
    health: Health | None = None

    @property
    def framework(self) -> str:
        """Names and versions of the frameworks, as reported by the containers."""
        return ", ".join(dict.fromkeys(trial.framework for trial in self.trials if trial.framework))

    @property
    def duration_s(self) -> float:
        """Total duration of the trials in seconds."""
        return sum(trial.duration_s for trial in self.trials)

    @property
    def smoke(self) -> bool:
        """Whether this is a smoke run, whose numbers mean nothing."""
        return self.manifest.profile.name == SMOKE

    @property
    def unfinished(self) -> bool:
        """Whether the run is in progress or was cut short, or trials were lost since."""
        there = {trial.id for trial in self.trials}
        # A run that has ended has the first trial of each workload and device, and not always the others.
        missing = any(trial.id not in there for trial in self.planned if not (self.ended and trial.index))
        return missing or any(
            trial.status in (Status.INTERRUPTED, Status.ENGINE_LOST) for trial in self.trials
        )
