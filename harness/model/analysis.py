"""What is said of a run: computed from it anew each time, and never stored as truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from harness.model.run import Point, Run, Status
from workloads.protocol import Change, Published


class Key(NamedTuple):
    """What a figure is about."""

    workload: str
    device: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """Something about one workload, device and variant."""

    workload: str
    device: str
    variant: str

    @property
    def key(self) -> Key:
        """What it is about."""
        return Key(self.workload, self.device, self.variant)


_Keyed = TypeVar("_Keyed", bound=Keyed)


def of_key(values: Iterable[_Keyed], key: Key) -> _Keyed | None:
    """Return the first value of a key, None where there is none."""
    return next((each for each in values if each.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median of `n` independent values with its 95 % interval, by harness.analysis.stats; n == 1 has none."""

    median: float
    low: float
    high: float
    n: int
    unit: str

    @property
    def half_width(self) -> float | None:
        """Half the interval's width over the median; None where there is no interval."""
        return (self.high - self.low) / 2 / abs(self.median) if self.n > 1 and self.median else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Keyed):
    """One workload, device and variant over all its finished trials.

    Attributes:
        throughput: samples/s in steady state.
        step_time: seconds a step, synchronised windows divided by their steps.
        step_quantiles: quantile ("p50", "p90", "p99", "max") -> seconds, of single steps.
        wait_share: share of the steady time spent waiting for input, between 0 and 1.
        training_s: time for the published epochs, where it was measured or, with `training_projected`, can be
            projected.
        cold_start: (phase, seconds) in order, everything before steady state.
        telemetry: "source.device.metric" -> mean over steady state (median over trials).
        energy_j_per_sample: of what `energy_source` says, or None.
        accuracy: on held-out data, or None.
        trial_ids, trial_throughputs: where every figure comes from, and samples/s of each.
    """

    throughput: Estimate
    step_time: Estimate
    batch_size: int
    step_quantiles: Mapping[str, float]
    wait_share: float | None
    training_s: Estimate | None
    training_projected: bool
    cold_start: tuple[tuple[str, float], ...]
    telemetry: Mapping[str, float]
    energy_j_per_sample: Estimate | None
    energy_source: str
    accuracy: float | None
    accuracy_ok: bool | None
    changes: tuple[Change, ...]
    trial_ids: tuple[str, ...]
    trial_throughputs: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Keyed):
    """Requests at one batch size (SingleStream), or at one rate of one trial (Server).

    Attributes:
        rate_per_s: samples offered a second; None where each request waited for the one before.
        samples_per_s: what was served.
        quantiles_s: "p50", "p90", "p99" -> seconds, over the requests of all trials; those missing for which
            there were too few.
        requests, planned: how many were served, and how many there were to be.
    """

    scenario: str
    batch_size: int
    rate_per_s: float | None
    samples_per_s: Estimate
    quantiles_s: Mapping[str, float]
    requests: int
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity(Keyed):
    """The largest rate of single samples at which the 99th percentile of latency kept to a bound.

    The bound is the least of those declared to which a rate kept; the largest where none did.

    Attributes:
        rate_per_s: over the trials in which a rate kept to the bound, `n` of them; None unless these are more
            than half.
        kept, trials: in how many trials a rate kept to the bound, and of how many.
        alone_s: 99th percentile of a request by itself, the least of all trials; None where not measured.
    """

    bound_s: float
    rate_per_s: Estimate | None
    kept: int
    trials: int
    alone_s: float | None


class RatioKind(StrEnum):
    """What a speed is compared with."""

    GPU_OVER_CPU = "gpu_over_cpu"
    OVER_BASELINE = "over_baseline"
    SCALING = "scaling"  # as many times the speed of one GPU: 1 when nothing is lost
    REQUESTS_GPU_OVER_CPU = "requests_gpu_over_cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Keyed):
    """The speed of a workload, device and variant over another's, with its interval."""

    kind: RatioKind
    ratio: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published number beside the measured one in the same unit.

    Attributes:
        measured: of `measured_variant`; None where nothing matches.
        factor: how many times the published speed (or ratio) the measured one is, against the nearer end of
            a range, 1 within it; None for units in which a ratio says nothing, and where nothing is measured.
    """

    workload: str
    device: str
    number: Published
    measured: Estimate | None
    measured_variant: str
    factor: Estimate | None = None

    @property
    def is_time_or_speed(self) -> bool:
        """Whether it is about a device by itself."""
        return self.number.unit in ("samples/s", "s")

    @property
    def other_variant(self) -> bool:
        """Whether the published settings were not run here, and the baseline stands in for them."""
        return self.measured is not None and self.measured_variant != self.number.variant


class Part(StrEnum):
    """A part of a step's time; all parts of a breakdown add up to the step as it was measured."""

    COMPUTE = "compute"  # the device works
    LAUNCH = "launch"  # the device waits for the next kernel or call
    FRAMEWORK = "framework"  # Python around the compiled step, or inside it
    INPUT_WAIT = "input wait"  # the step waits for its batch
    INPUT_SLOWDOWN = "slowed by input"  # the step is slower while the pipeline runs
    COPY = "copy"  # host to device
    EXCHANGE = "exchange"  # gradients between devices
    HOST = "host taken"  # CPU quota, steal, other programs
    UNEXPLAINED = "unexplained"  # the rest, with its sign


INPUT_PARTS = (Part.INPUT_WAIT, Part.INPUT_SLOWDOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime(Keyed):
    """Where a step's time goes, for one workload, device and variant.

    Attributes:
        batch: samples of the step: the baseline's, also for other variants, so that times compare.
        total: seconds a step.
        parts: seconds a step, in the order of Part; their medians add up to that of `total`. A part that
            could not be measured here is absent. Only UNEXPLAINED may be negative.
    """

    batch: int
    total: Estimate
    parts: Mapping[Part, Estimate]

    def share(self, *parts: Part) -> float:
        """Return the share of the step that some parts take together."""
        return sum(self.parts[part].median for part in parts if part in self.parts) / self.total.median


class Cause(StrEnum):
    """What a finding is about; most belong to one part of the step."""

    INPUT = "input"  # the pipeline is slower than the model
    OVERLAP = "no overlap"  # input and computing take turns
    DISK = "disk"  # the pipeline waits for storage
    COPY = "copy"
    LAUNCH = "launch"
    EXCHANGE = "exchange"
    RUN_EAGERLY = "run_eagerly"
    CALLBACKS = "callbacks"
    PYTHON_IN_STEP = "Python in the step"
    RETRACING = "retracing"
    KERAS_LOOP = "Keras loop"
    QUOTA = "CPU quota"
    STEAL = "steal"
    OTHER_PROGRAMS = "other programs"
    COMPUTE = "compute"
    MEMORY_BANDWIDTH = "memory bandwidth"
    HEAT = "heat"
    POWER = "power limit"
    NOT_LEARNING = "not learning"
    UNEXPLAINED = "unexplained"
    IMPOSSIBLE = "impossible measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The baseline without some parts of its step, and its speed over the baseline's.

    Attributes:
        predicted: what the breakdown predicts for it, 1 / (1 - share of these parts).
    """

    variant: str
    predicted: float
    gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A variant that answers a cause as a user can, and its speed over the baseline's.

    Attributes:
        alone: it changes nothing that does not answer the cause.
    """

    variant: str
    gain: Estimate
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause of lost time, or the limit that remains where little is lost.

    Attributes:
        parts: of the step, those that the cause accounts for; () where it is none of them.
        share: of the step's time, 0 to 1; None where no time is lost to it.
        gain: predicted speed over the baseline's with the cause removed, 1 / (1 - share).
        ablation: the measured gain beside it.
        remedy: the measured variant that answers the cause with the fewest other changes.
        stages: of the input pipeline, the slowest; several where their intervals do not tell them apart.
        variants: of an impossible measurement, the variant that is too fast and what it cannot be faster than.
        facts: what was observed, by name, for the sentence about it: numbers in SI units and shares 0 to 1.
    """

    workload: str
    device: str
    cause: Cause
    parts: tuple[Part, ...] = ()
    share: Estimate | None = None
    gain: float | None = None
    ablation: Ablation | None = None
    remedy: Remedy | None = None
    stages: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of an input pipeline: seconds a sample that it adds."""

    name: str
    cost: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The input pipeline of a workload on a device.

    Attributes:
        cpus_used, cpus: what the pipeline uses by itself, and what it may use; None where not known.
    """

    workload: str
    device: str
    stages: tuple[Stage, ...]
    cpus_used: float | None
    cpus: float | None


class CaveatKind(StrEnum):
    """What a reader must know before trusting a number."""

    PARAMETERS = "parameters"
    FAILED_TRIALS = "failed trials"
    FEW_TRIALS = "few trials"
    WIDE_INTERVAL = "wide interval"
    DRIFT = "drift"
    DATA = "data"
    MISSED_TICKS = "missed ticks"
    TELEMETRY_GAP = "telemetry gap"
    WORKLOAD_WARNING = "workload warning"
    STEAL = "steal"
    FOREIGN_PROCESSES = "foreign processes"
    XID_ERRORS = "xid errors"
    ECC_ERRORS = "ecc errors"
    POWER_LIMIT = "power limit"
    MIG = "mig"
    GOVERNOR = "governor"
    CLOCKS_APART = "clocks apart"
    CPU_THROTTLED = "cpu throttled"


_NOTES = frozenset(
    {
        CaveatKind.DATA,
        CaveatKind.TELEMETRY_GAP,
        CaveatKind.WORKLOAD_WARNING,
        CaveatKind.MIG,
        CaveatKind.GOVERNOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """One caveat of a kind: what it is about, with the number and the text that its sentence needs."""

    kind: CaveatKind
    workload: str = ""
    device: str = ""
    variant: str = ""
    source: str = ""
    value: float = 0.0
    text: str = ""

    @property
    def is_note(self) -> bool:
        """Whether it is good to know, and no reason to doubt a number."""
        return self.kind in _NOTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One combination of a sweep's values.

    Attributes:
        status: how its trials ended, the best of them; None where none has ended yet.
        message: why there is no speed, "" where there is one.
        throughput: samples/s in steady state, None where no trial went well.
        over_best: its throughput over the best point's, trial by trial; None without a throughput.
        tied: whether it may be the fastest of all as well as the best; None where single trials cannot tell.
    """

    point: Point
    status: Status | None
    message: str
    throughput: Estimate | None
    over_best: Estimate | None
    tied: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Keyed):
    """A workload's speed over a grid of parameters on one device, one variant of it.

    Attributes:
        axes: names of the parameters that it varies.
        points: all that was planned, in the grid's order, the last axis running fastest.
        best: the one with the greatest median throughput, None where nothing was measured.
    """

    axes: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    best: SweepPoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Keyed):
    """What one workload, device and variant takes in money; None where a price or a reading is missing.

    Attributes:
        per_hour: price of an hour, in the manifest's currency.
        training: money for the published epochs, steady state only, as `Summary.training_s`.
        electricity: money for the energy of these epochs alone, of what `Summary.energy_source` covers.
        per_million_samples: money for a million samples.
    """

    per_hour: float | None
    training: Estimate | None
    electricity: Estimate | None
    per_million_samples: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything the report says, computed from a Run and nothing else; numbers and facts, no sentences.

    Attributes:
        step_times: of baseline and tuned, for each workload and device.
        findings: for each workload and device by their share, the largest first.
    """

    run: Run
    summaries: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]
    published: tuple[PublishedComparison, ...]
    step_times: tuple[StepTime, ...]
    findings: tuple[Finding, ...]
    caveats: tuple[Caveat, ...]
    latencies: tuple[Latency, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    costs: tuple[Cost, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()

    def ratio(self, kind: RatioKind, key: Key) -> Estimate | None:
        """Return what a comparison comes to, None where it was not measured."""
        result = of_key((each for each in self.comparisons if each.kind is kind), key)
        return result.ratio if result else None

    def limit(self, workload: str, device: str) -> Finding | None:
        """Return what holds a workload back most on a device; None where nothing was found."""
        own = (each for each in self.findings if (each.workload, each.device) == (workload, device))
        return next(own, None)
