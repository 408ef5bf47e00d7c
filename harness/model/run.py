"""A run as it is recorded: frozen values with units in their names, and no I/O. All that is persisted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from harness.defaults import Profile
from harness.model.options import Options
from harness.model.platform import EngineInfo, Gpu, ImageInfo
from workloads.protocol import Change, Workload

SCHEMA_VERSION = 2
# The device of trials without a GPU.
CPU = "cpu"
# The profile that tries out whether all works.
SMOKE = "smoke"

# Fact that a container tells -> name of the framework whose version it is.
_FRAMEWORKS = {"tensorflow": "TensorFlow", "xgboost": "XGBoost"}

Scalar = str | int | float | bool

# One combination of a sweep's values, (parameter, value) in the order of its axes; () outside a sweep.
Point = tuple[tuple[str, Scalar], ...]


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"  # the workload raised or exited non-zero
    OUT_OF_MEMORY = "out-of-memory"
    TIMEOUT = "timeout"
    BAD_EVENTS = "bad-events"  # none, or not in the protocol
    ENGINE_LOST = "engine-lost"
    NO_GPU = "no-gpu"  # asked for GPUs that TensorFlow did not register
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Telemetry that is missing, and why: `metric` is "*" when a whole source or device is meant."""

    source: str
    device: str
    metric: str
    start_ns: int
    end_ns: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One source's readings for one device over a trial.

    Attributes:
        t_ns: int64[n], CLOCK_MONOTONIC, ascending.
        columns: metric name -> float64[n]; NaN where there is a gap. Names carry units;
            docs/telemetry.md lists them.
    """

    source: str
    device: str
    t_ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A named stretch of a trial; `variant` is "" for phases that all variants share."""

    name: str
    variant: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps measured between two synchronised instants; `wait_ns` is -1 where waiting cannot be seen."""

    variant: str
    index: int
    start_ns: int
    end_ns: int
    steps: int
    samples: int
    wait_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """int64[n] durations of single steps of one window, as the host thread saw them."""

    variant: str
    window: int
    step_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure that the workload itself reported, such as test accuracy."""

    variant: str
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """int64[n] latencies of one series of requests; fields as in workloads.protocol's event "requests"."""

    variant: str
    scenario: str
    batch_size: int
    rate_per_s: float
    planned: int
    start_ns: int
    end_ns: int
    latency_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What the workload itself said of a variant in words, such as the kernel that its layers were given."""

    variant: str
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantInfo:
    """The parameters that a variant ran with, and what it changed against baseline."""

    variant: str
    params: Mapping[str, Any]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """One container to run: `device` is "cpu", "gpu0", or "gpu0+gpu1" for several at once.

    Attributes:
        id: names a folder; plans travel inside reports, which come from anywhere, so it names none elsewhere.
        params: overrides of the workload's parameters, those of `point` among them.
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
        """Positions, in the manifest's `gpus`, of the GPUs that the trial uses."""
        return tuple(int(part.removeprefix("gpu")) for part in self.device.split("+") if part != "cpu")

    def trial(self, status: Status, message: str = "") -> Trial:
        """Return how this trial ended, with nothing measured."""
        return Trial(
            id=self.id,
            workload=self.workload,
            device=self.device,
            index=self.index,
            status=status,
            exit_code=None,
            message=message,
            started_ns=0,
            ended_ns=0,
            point=self.point,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One container, as it went.

    Attributes:
        status, exit_code, message: how it ended; message is for people, "" when all went well.
        started_ns, ended_ns: CLOCK_MONOTONIC of the host around the container's life.
        facts: what the container found (versions, devices); scalars.
        reported: what the workload knows of its variants.
        left_out: planned variant that could not be measured -> why.
    """

    id: str
    workload: str
    device: str
    index: int
    status: Status
    exit_code: int | None
    message: str
    started_ns: int
    ended_ns: int
    variants: tuple[VariantInfo, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    windows: tuple[Window, ...] = ()
    steps: tuple[StepTimes, ...] = ()
    metrics: tuple[Metric, ...] = ()
    requests: tuple[RequestTimes, ...] = ()
    reported: tuple[Fact, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    telemetry: tuple[Series, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)
    point: Point = ()

    @property
    def framework(self) -> str:
        """What it trained with and its version, "" where the container did not come to say so."""
        result = (f"{name} {self.facts[fact]}" for fact, name in _FRAMEWORKS.items() if fact in self.facts)
        return next(result, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInfo:
    """The data that a workload trained on; `why` says how that came.

    `kind` is "real", "procedural", or "synthetic" where the workload makes its own samples; `size_bytes` is
    what its files take.
    """

    workload: str
    name: str
    kind: str
    sha256: str
    why: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What an hour of this machine costs; None where no price was given.

    Attributes:
        machine: an hour of the machine, whichever device works.
        cpu, gpu: an hour of the machine that one would rent to run on that kind of device.
        each_gpu: an hour of each GPU that a trial uses.
        electricity_per_kwh: what a kilowatt-hour costs.
        currency: of all of them, e.g. "USD".
        source: where the prices come from, in words.
    """

    machine: float | None = None
    cpu: float | None = None
    gpu: float | None = None
    each_gpu: float | None = None
    electricity_per_kwh: float | None = None
    currency: str = "USD"
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where so many workers ran.

    Attributes:
        nodes: each worker's node, the first worker's first.
        machines: each worker's machine, numbered from 0 in the order of the workers; equal numbers share one.
        cpus: how many each worker could use, its own or shared; None where unknown.
    """

    nodes: tuple[str, ...]
    machines: tuple[int, ...]
    cpus: int | None = None

    @property
    def oversubscribed(self) -> bool:
        """Whether workers of a machine used the same CPUs."""
        return len(set(self.machines)) < len(self.machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Who, when, on what and how: everything that one needs to run the same again.

    Attributes:
        system: MLPerf system-description field -> value ("" where it cannot be found out).
        options: as the user gave them; profile: as they changed it.
        memory_limit_bytes: what each container may use.
        placement: of workers on several nodes that trained together; None for one machine.
        weights_sha256: of the file of --weights, "" without one.
        rerun_of: the run that this one repeats, "" for none.
        command: the command line that runs exactly this again.
        prices: what its costs are computed with; a report may be made with others.
        sources: workload -> SHA-256 of its file, and "workloads" -> that of the package which runs them all.
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
    placement: Placement | None = None
    rerun_of: str = ""
    weights_sha256: str = ""
    prices: Prices | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a workload was repeated no further on a device, after how many trials that went well."""

    workload: str
    device: str
    trials: int
    reason: str
    point: Point = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that is persisted of one `tfbench bench`; `stops` is empty while a run goes on or was cut off."""

    manifest: Manifest
    workloads: tuple[Workload, ...]
    planned: tuple[PlannedTrial, ...]
    trials: tuple[Trial, ...]
    stops: tuple[Stop, ...] = ()

    @property
    def system(self) -> Mapping[str, str]:
        """MLPerf's system description; the framework, which only the containers know, is filled in."""
        versions = dict.fromkeys(trial.framework for trial in self.trials if trial.framework)
        framework = self.manifest.system.get("framework") or ", ".join(versions)
        return {**self.manifest.system, "framework": framework}

    @property
    def duration_s(self) -> float:
        """Seconds that its trials took, one after another."""
        return sum(trial.ended_ns - trial.started_ns for trial in self.trials) / 1e9

    @property
    def tried_out(self) -> bool:
        """Whether it only tried out whether all works: then its figures mean nothing."""
        return self.manifest.profile.name == SMOKE

    @property
    def unfinished(self) -> bool:
        """Whether it goes on or was cut short: a trial was, or some are missing that no rule left out."""
        if any(trial.status in (Status.INTERRUPTED, Status.ENGINE_LOST) for trial in self.trials):
            return True
        ended = {trial.id for trial in self.trials}
        settled = {(stop.workload, stop.device, stop.point) for stop in self.stops}
        return any(
            planned.id not in ended and (planned.workload, planned.device, planned.point) not in settled
            for planned in self.planned
        )
