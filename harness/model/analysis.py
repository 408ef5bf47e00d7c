"""Results of analysing a run. They are recomputed each time; only the run itself is the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import NamedTuple, Self

from harness.model.platform import HealthItem, Level
from harness.model.run import Point, Run, Status
from harness.model.workload import Published
from workloads.protocol import Aim, Change
from workloads.variants import Part

# Thresholds of both analysis and wording. Fewer trials or a wider interval (half width / median) are a caveat.
MIN_TRIALS = 3
RELIABLE_WIDTH = 0.05
# Minimum share of time at a lowered clock: xprof calls a loss of 5 % moderate. Above FULL_CLOCK, as a share of the
# maximum, the cost of a power limit is below what a 1 % interval can show.
MIN_LOWERED, FULL_CLOCK = 0.05, 0.99
# Unexplained time above this share of a step is a finding.
MIN_UNEXPLAINED = 0.10


class Key(NamedTuple):
    """The workload, device and variant that a value belongs to."""

    workload: str
    device: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A value that belongs to one workload, device and variant."""

    workload: str
    device: str
    variant: str

    @property
    def key(self) -> Key:
        """The workload, device and variant."""
        return Key(self.workload, self.device, self.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Median of `n` independent values with a 95 % interval from harness.analysis.ratios.

    A single value has an interval, from the spread of others, or `low` and `high` equal it.

    Attributes:
        shared: degrees of freedom that its interval has beyond n - 1, from the spread of other values.
    """

    median: float
    low: float
    high: float
    n: int
    unit: str
    shared: float = 0.0

    @classmethod
    def exact(cls, value: float, unit: str) -> Estimate:
        """Return a value without an interval."""
        return cls(median=value, low=value, high=value, n=1, unit=unit)

    def map(self, function: Callable[[float], float], unit: str) -> Estimate:
        """Return a monotonic function of the value in another unit."""
        low, high = sorted((function(self.low), function(self.high)))
        return Estimate(
            median=function(self.median), low=low, high=high, n=self.n, unit=unit, shared=self.shared
        )

    @property
    def degrees(self) -> float:
        """Degrees of freedom of its interval, which is Student's t."""
        return self.n - 1 + self.shared

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval / median; None without an interval."""
        return (self.high - self.low) / 2 / abs(self.median) if self.known and self.median else None

    @property
    def known(self) -> bool:
        """Whether it has an interval."""
        return self.n > 1 or self.high > self.low


class Reading(NamedTuple):
    """What a value of telemetry is about; sources, devices and metrics are in docs/telemetry.md."""

    source: str
    device: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Requests at one batch size (SingleStream), or at one rate in one trial (Server).

    Attributes:
        rate_per_s: samples offered per second; None if each request waited for the previous one.
        samples_per_s: samples served per second.
        quantiles_s: "p50", "p90", "p99" -> seconds, over the requests of all trials; without quantiles for
            which there are too few requests.
        requests, planned: number of requests served and planned.
    """

    scenario: str
    batch_size: int
    rate_per_s: float | None
    samples_per_s: Estimate
    quantiles_s: Mapping[str, float]
    requests: int
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How fast a model generates tokens with batches of one size.

    Attributes:
        first_s: quantile -> time to the first token, seconds.
        token_s: quantile -> time per output token after the first, over requests, seconds.
        tokens_per_s: of all sequences of the batch, after their first tokens.
        bandwidth: share of the measured memory bandwidth that reading weights and cache takes; None if unknown.
        requests: number of requests that were timed.
    """

    batch_size: int
    first_s: Mapping[str, float]
    token_s: Mapping[str, float]
    tokens_per_s: Estimate
    bandwidth: float | None
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The highest rate of single samples at which the 99th percentile of latency met a bound.

    The bound is the tightest declared one that baseline and tuned met on the device, at which variants are
    compared; else, and in a variant's second capacity, the tightest that it met itself, or the loosest.

    Attributes:
        rate_per_s: over the `n` trials in which a rate met the bound; None unless these are more than half.
        kept, trials: number of trials in which a rate met the bound, and of all trials.
    """

    bound_s: float
    rate_per_s: Estimate | None
    kept: int
    trials: int


class RatioKind(StrEnum):
    """Which two speeds a ratio compares."""

    GPU_OVER_CPU = "gpu_over_cpu"
    OVER_BASELINE = "over_baseline"
    SCALING = "scaling"  # speed per GPU over the speed of a single GPU; 1 is perfect scaling
    REQUESTS_GPU_OVER_CPU = "requests_gpu_over_cpu"
    REQUESTS_OVER_BASELINE = "requests_over_baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published number and the measured value in the same unit.

    Attributes:
        measured: result of the number's variant; None if it did not run.
        factor: measured speed (or ratio) / published; for a published range, against its nearer end, and 1
            inside it. None if nothing was measured or a ratio is meaningless in this unit.
    """

    workload: str
    device: str
    number: Published
    measured: Estimate | None
    factor: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Breakdown of the step time of a variant.

    Attributes:
        total: seconds per step.
        parts: seconds per step, in the order of Part; their medians add up to the median of `total`. Parts
            that could not be measured are absent. Only UNEXPLAINED may be negative.
    """

    batch: int
    total: Estimate
    parts: Mapping[Part, Estimate]

    def share(self, *parts: Part) -> float:
        """Return the combined share of some parts in the step."""
        taken = sum(self.parts[part].median for part in parts if part in self.parts)
        return taken / self.total.median if self.total.median else 0.0

    @property
    def unexplained(self) -> bool:
        """Whether a noticeable share of the step is not accounted for."""
        return abs(self.share(Part.UNEXPLAINED)) > MIN_UNEXPLAINED


_INPUT = (Aim.INPUT, Aim.LOADER)


class Cause(StrEnum):
    """The cause that a finding names; most correspond to one part of the step.

    Its rule is in harness/analysis/findings.py, its words are in reports/causes.py.

    Attributes:
        aims: the aims of the remedies for it.
        of_machine: whether only whoever runs the machine can change it, which comes before any change of the code.
    """

    aims: frozenset[Aim]
    of_machine: bool

    def __new__(cls, value: str, aims: Iterable[Aim] = (), of_machine: bool = False) -> Self:
        """Return the cause of this name."""
        cause = str.__new__(cls, value)
        cause._value_ = value
        cause.aims = frozenset(aims)
        cause.of_machine = of_machine
        return cause

    INPUT = "input", _INPUT  # the pipeline is slower than the model
    OVERLAP = "no overlap", _INPUT  # input and compute alternate
    DISK = "disk", _INPUT  # the pipeline waits for storage
    COPY = "copy", _INPUT
    LAUNCH = "launch", (Aim.LAUNCH, Aim.DEVICE, Aim.BATCH)
    RECURRENT = "recurrent layer without cuDNN's kernel", (Aim.RECURRENT,)
    EXCHANGE = "all-reduce", (Aim.BATCH,)
    RUN_EAGERLY = "run_eagerly", (Aim.EAGER,)
    CALLBACKS = "callbacks", (Aim.FRAMEWORK,)
    PYTHON_IN_STEP = "Python in the step"
    RETRACING = "retracing"
    KERAS_LOOP = "Keras loop", (Aim.LAUNCH, Aim.FRAMEWORK)
    EPOCHS = "ends of epochs", (Aim.LAUNCH,)
    QUOTA = "CPU quota", (), True
    STEAL = "steal", (), True
    OTHER_PROGRAMS = "other programs", (), True
    COMPUTE = "compute", (Aim.DEVICE, Aim.BATCH)
    PRECISION = "precision", (Aim.DEVICE,)  # computes in a precision in which the device is slow
    UPDATE = (
        "optimizer update",
        (Aim.DEVICE, Aim.BATCH),
    )  # does not grow with the batch although the device is busy
    MEMORY_BANDWIDTH = "memory bandwidth", (Aim.DEVICE,)
    ON_CPU = "operations on the CPU", (Aim.DEVICE,)  # while the GPU waits
    HEAT = "heat", (), True
    POWER = "power limit", (), True
    HARDWARE = "hardware slowdown", (), True
    NOT_LEARNING = "not learning", (), True
    UNEXPLAINED = "unexplained"
    IMPOSSIBLE = "impossible measurement", (), True


# No prediction is above this: the accuracy to which the time without a part is known.
MOST_SPEEDUP = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The measured speedup of the baseline without some parts of its step.

    Attributes:
        predicted: the speedup that the breakdown predicts, 1 / (1 - share of these parts); None if it cannot tell.
    """

    variant: str
    predicted: Estimate | None
    gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A variant that fixes a cause in a way that users can copy, and its speedup over the baseline.

    Attributes:
        alone: whether all its changes address the cause.
    """

    variant: str
    gain: Estimate
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause of lost time, or the limiting resource if little time is lost.

    Attributes:
        device: of its case.
        parts: parts of the step that the cause accounts for; may be empty.
        share: share of the step time, 0 to 1; None if the cause costs no time.
        gain: predicted speedup with the cause removed, 1 / (1 - share).
        remedy: the measured variant that addresses the cause with the fewest other changes.
        refused: why a change that addresses it is none for this script; "" if there is no such change.
        stages: slowest input pipeline stage; several if their intervals overlap.
        variants: for an impossible measurement, the variant that is too fast and the variant that bounds it.
        facts: name -> observed value, in SI units or as a share from 0 to 1, for use in messages.
    """

    device: str
    cause: Cause
    parts: tuple[Part, ...] = ()
    share: Estimate | None = None
    gain: float | None = None
    ablation: Ablation | None = None
    remedy: Remedy | None = None
    refused: str = ""
    stages: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The SM clock of a variant on its slowest GPU.

    Attributes:
        mhz, max_mhz: mean over the measured windows, and the GPU's maximum; None if unknown.
        lowered: cause (power, heat, hardware) -> share of the measured time in which it lowered the clock.
    """

    mhz: float | None
    max_mhz: float | None
    lowered: Mapping[Cause, float]

    @property
    def share(self) -> float | None:
        """The clock as a share of its maximum."""
        return min(1.0, self.mhz / self.max_mhz) if self.mhz and self.max_mhz else None

    @property
    def slowed(self) -> Mapping[Cause, float]:
        """The causes that lowered the clock noticeably; a power limit that does not lower it costs nothing."""
        full = self.share is not None and self.share >= FULL_CLOCK
        return {
            cause: time
            for cause, time in self.lowered.items()
            if time >= MIN_LOWERED and not (full and cause is Cause.POWER)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What a device can do at best, in FLOP/s, bytes/s, pictures/s or kernels/s.

    Attributes:
        kind: of the device: only values of one kind are compared.
        sheet: the data sheet's value; None if the GPU or the capability is not in one.
        mhz, power_w: mean SM clock and power while it was measured, or None.
    """

    device: str
    name: str
    kind: str
    value: Estimate
    sheet: float | None = None
    mhz: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakUse:
    """How much of its device's peak the matrix products and convolutions of a variant use.

    Attributes:
        flops_per_sample: operations that the model needs, a multiplication and an addition each.
        flops_per_s: at the measured speed.
        precision: the capability with the peak, such as "bf16".
        measured_peak, sheet_peak: FLOP/s of all its devices, as measured here and by the data sheet; None if unknown.
        needed_bandwidth: share of the measured memory bandwidth that the model needs, of one that generates tokens.
        reported_bandwidth: share of the theoretical memory bandwidth that GPUs report to be in use; None if unknown.
    """

    flops_per_sample: float
    flops_per_s: float
    precision: str
    measured_peak: float | None
    sheet_peak: float | None
    needed_bandwidth: float | None = None
    reported_bandwidth: float | None = None

    @property
    def of_measured(self) -> float | None:
        """Share of the measured peak."""
        return self.flops_per_s / self.measured_peak if self.measured_peak else None

    @property
    def of_sheet(self) -> float | None:
        """Share of the data sheet's peak, which is what MFU usually means."""
        return self.flops_per_s / self.sheet_peak if self.sheet_peak else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A measured number by its documented name, such as "capability.bf16"; harness/analysis/quantities.py has them all.

    Attributes:
        lower: whether a lower value is the better one.
        exact: whether a single reading is final, because the quantity has no noise between trials.
    """

    name: str
    device: str
    estimate: Estimate
    lower: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that a machine has to meet, in the unit of its quantity.

    Attributes:
        text: as written in the limits file.
        over: the quantity that `name` is divided by, or "".
        device: the only device that it applies to; "" for every GPU, or without GPUs the CPU.
        at_most: whether the value may not be above `bound`, else not below it.
    """

    text: str
    name: str
    over: str = ""
    device: str = ""
    at_most: bool = False
    bound: float


class Condition(StrEnum):
    """A known reason why machines of one kind differ."""

    CLOCK = "clock"
    DRIVER = "driver"
    POWER_LIMIT = "power limit"
    HOST = "host"
    FRAMEWORK = "framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A value beside those of the known devices of its kind.

    Attributes:
        others: their values, ascending.
        explained: conditions that explain the difference: the clock, or one that devices with such a value share.
        unshared: conditions that no other shares, so that nothing can be said of them.
    """

    value: Value
    kind: str
    others: tuple[float, ...]
    explained: tuple[Condition, ...] = ()
    unshared: tuple[Condition, ...] = ()

    @property
    def ratio(self) -> float:
        """The value over the median of the others; above 1 is better."""
        ratio = self.value.estimate.median / median(self.others)
        return 1 / ratio if self.value.lower else ratio

    @property
    def better(self) -> int:
        """How many of the others are better."""
        own, lower = self.value.estimate.median, self.value.lower
        return sum(other < own if lower else other > own for other in self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """How fast the memory of one GPU, or of the host, is copied to another's.

    Attributes:
        source, target: a GPU such as "gpu0"; or HOST, or as a source one of its NUMA nodes, whose memory is pinned.
        value: bytes/s.
        direct: whether the target reads the source without the host; None if unknown, and for the host.
        link: what NVML says connects both, such as "NVLink"; "" if it says nothing.
        pcie: bytes/s that PCIe can carry in one direction between two GPUs; None if unknown, and for the host.
        ratio: the value over the median of the others between devices of the same kinds; None without others.
        odd: whether it is so much lower that the link is to be looked at.
    """

    source: str
    target: str
    value: Estimate
    direct: bool | None = None
    link: str = ""
    pcie: float | None = None
    ratio: float | None = None
    odd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A GPU that is slower than the others of its kind in this machine, by more than chance and their usual scatter.

    Attributes:
        family: what it is slower in: "all", "compute", "memory", "copies", "launch" or "workloads".
        ratio: its speed over the median of the others.
        others: how many it was compared with.
    """

    device: str
    family: str
    ratio: float
    others: int


class LimitOutcome(StrEnum):
    """What a measured interval says of a limit, worst first."""

    MISSED = "missed"  # the whole interval is on the wrong side
    UNDECIDED = "undecided"  # the interval includes the limit, or there is a single reading
    NOT_MEASURED = "not measured"
    MET = "met"


class Advice(StrEnum):
    """What to do about a missed limit."""

    HEALTH = "health"  # what the device's failed health check asks for
    COOL = "cool"
    REPEAT = "repeat"  # the host was disturbed
    OTHER_SLOT = "other slot"
    RETURN = "return"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """One limit held against one device.

    Attributes:
        more: how many more readings would decide, if they scatter like these; None if decided or over 1,000.
        advice: for a missed limit.
        check: the health check that the advice HEALTH is about.
    """

    device: str
    outcome: LimitOutcome
    value: Estimate | None = None
    more: int | None = None
    advice: Advice | None = None
    check: HealthItem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResult:
    """A limit with its check on every device that it applies to."""

    limit: Limit
    checks: tuple[LimitCheck, ...]

    @property
    def outcome(self) -> LimitOutcome:
        """The worst outcome of its checks."""
        found = {check.outcome for check in self.checks}
        return next(outcome for outcome in LimitOutcome if outcome in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endurance:
    """The speed of a device under a load without pause, in FLOP/s.

    Attributes:
        cold, sustained: at the beginning, and at the end.
        steady_s: seconds until the speed stayed within 2 % of the sustained one; None if it never did.
        telemetry: "sm_clock_mhz", "power_instant_w", "temperature_c" -> mean while sustained, where known; of several
            GPUs the lowest clock, the highest power and the highest temperature.
        precision: of the products, such as "fp16"; "" if the run does not tell.
    """

    device: str
    cold: float
    sustained: float
    steady_s: float | None
    telemetry: Mapping[str, float] = field(default_factory=dict)
    precision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of an input pipeline, with its cost in seconds per sample."""

    name: str
    cost: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The input pipeline of a workload on a device.

    Attributes:
        cpus_used, cpus: CPUs that the pipeline used when run alone, and CPUs available; None if unknown.
    """

    stages: tuple[Stage, ...]
    cpus_used: float | None
    cpus: float | None


class CaveatKind(StrEnum):
    """Reasons to read a number with care."""

    PARAMETERS = "parameters"
    FAILED_TRIALS = "failed trials"
    SKIPPED = "skipped"
    SLOW_PERIOD = "slow period"
    OTHER_PROGRAMS = "other programs"
    DATA = "data"
    NETWORK = "network"
    MISSED_TICKS = "missed ticks"
    TELEMETRY_GAP = "telemetry gap"
    WORKLOAD_WARNING = "workload warning"
    CLOCKS_APART = "clocks apart"
    CPU_THROTTLED = "cpu throttled"
    THROTTLED = "throttled"


_NOTES = frozenset(
    {
        CaveatKind.DATA,
        CaveatKind.NETWORK,
        CaveatKind.SKIPPED,
        CaveatKind.TELEMETRY_GAP,
        CaveatKind.WORKLOAD_WARNING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """One caveat, with its subject and the number and text used in its message."""

    kind: CaveatKind
    workload: str = ""
    device: str = ""
    variant: str = ""
    source: str = ""
    value: float = 0.0
    text: str = ""

    @property
    def is_note(self) -> bool:
        """Whether it is for information only and casts no doubt on a number."""
        return self.kind in _NOTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision(Keyed):
    """The widest interval of a run's speeds, and why it is wide.

    Attributes:
        width: half width / median.
        between, within: relative standard deviation between its units (processes, or rounds of them), and of the
            windows of one process; `within` is None if each has one window.
        machine: relative standard deviation of the probe around its trials, which runs the same code each time; None
            without.
        taken, taken_by: share of its time that others took, and who; None if they took little.
        time_s: how long measuring takes until all speeds are within RELIABLE_WIDTH.
    """

    width: float
    between: float
    within: float | None
    machine: float | None
    taken: float
    taken_by: Cause | None
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One combination of parameter values in a sweep.

    Attributes:
        status: best status of its trials; None if no trial has ended yet.
        message: why there is no throughput; "" if there is one.
        throughput: samples/s in steady state; None if no trial succeeded.
        over_best: its throughput / the best point's, paired by trial; None without a throughput.
        tied: whether it may be the fastest point; None if there are too few trials to say.
    """

    point: Point
    status: Status | None
    message: str
    throughput: Estimate | None
    over_best: Estimate | None
    tied: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Keyed):
    """Throughput of one workload, device and variant over a grid of parameters.

    Attributes:
        points: all planned points in grid order; the last axis varies fastest.
        best: the point with the highest median throughput; None if nothing was measured.
    """

    axes: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    best: SweepPoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a variant in the manifest's currency.

    None if a price or reading is missing.

    Attributes:
        training: cost of the published epochs, steady state only, as `VariantResult.training_s`.
        electricity: cost of the energy for these epochs that `VariantResult.energy_source` measures.
    """

    per_hour: float | None
    training: Estimate | None
    electricity: Estimate | None
    per_million_samples: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantResult:
    """One variant of a workload on a device over all its finished trials.

    Attributes:
        throughput: samples/s in steady state.
        step_time: seconds per step: length of the synchronised windows / their steps.
        step_quantiles: quantile ("p50", "p90", "p99", "max") -> seconds, of single steps.
        wait_share: share of steady-state time spent waiting for input, 0 to 1.
        training_s: time for the script's epochs, measured or (if `training_projected`) projected.
        training_samples: samples of these epochs.
        cold_start: (phase, seconds) of everything before steady state, in order.
        telemetry: mean over steady state (median over trials).
        memory_bytes: largest memory in use, of the GPU that used most or else of the process; None if unknown.
        energy_j_per_sample: as measured by `energy_source`, or None.
        accuracy, accuracy_samples: on held-out data, and after training on how many samples; None if unknown.
        trial_ids, trial_throughputs: the trials summarised here, and samples/s of each.
        readings: how many there are in them.
        ratios: of its speed to another one, where both were measured.
        latencies: of its requests, by scenario, batch size and rate.
        capacities: at the bound at which variants are compared, and at a tighter one that it met.
        generation: speed of generating tokens, by batch size.
        breakdown: where its step's time goes; only of baseline and tuned.
        clocks, peak_use: on GPUs whose telemetry has them, and where its operations are known.
        cost: only of baseline and tuned, with prices.
    """

    throughput: Estimate
    step_time: Estimate
    batch_size: int
    step_quantiles: Mapping[str, float]
    wait_share: float | None
    training_s: Estimate | None
    training_projected: bool
    training_samples: int | None
    cold_start: tuple[tuple[str, float], ...]
    telemetry: Mapping[Reading, float]
    memory_bytes: float | None
    energy_j_per_sample: Estimate | None
    energy_source: str
    accuracy: float | None
    accuracy_samples: float | None
    accuracy_ok: bool | None
    changes: tuple[Change, ...]
    trial_ids: tuple[str, ...]
    trial_throughputs: tuple[float, ...]
    readings: int
    ratios: Mapping[RatioKind, Estimate] = field(default_factory=dict)
    latencies: tuple[Latency, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    generation: tuple[Generation, ...] = ()
    breakdown: StepTime | None = None
    clocks: Clocks | None = None
    peak_use: PeakUse | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One workload on one device.

    Attributes:
        serves: whether the workload's speed is the requests/s that it serves within a latency bound.
        variants: name -> result.
        findings: sorted by share, largest first.
        pipeline: None if the input was not measured alone.
    """

    workload: str
    device: str
    serves: bool
    variants: Mapping[str, VariantResult]
    findings: tuple[Finding, ...]
    pipeline: Pipeline | None

    @property
    def limit(self) -> Finding | None:
        """The finding that limits the workload most."""
        return next(iter(self.findings), None)

    def speed(self, variant: str) -> Estimate | None:
        """Return a variant's samples/s, or its requests/s within the latency bound if the workload serves."""
        result = self.variants.get(variant)
        if result is None:
            return None
        if not self.serves:
            return result.throughput
        return result.capacities[0].rate_per_s if result.capacities else None

    def ratio(self, kind: RatioKind, variant: str) -> Estimate | None:
        """Return a measured ratio of a variant's speed to another one, or None."""
        return self.variants[variant].ratios.get(kind) if variant in self.variants else None

    def gain(self, variant: str) -> Estimate | None:
        """Return the ratio of a variant's speed to the baseline's."""
        kind = RatioKind.REQUESTS_OVER_BASELINE if self.serves else RatioKind.OVER_BASELINE
        return self.ratio(kind, variant)

    def breakdown(self, variant: str) -> StepTime | None:
        """Return where the time of a variant's step goes, or None."""
        return self.variants[variant].breakdown if variant in self.variants else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The content of a report, computed from a Run alone: numbers and facts, no sentences.

    Attributes:
        cases: one for each workload and device that was measured.
        published: one for each published number and single device that it is about, measured or not.
    """

    run: Run
    cases: tuple[CaseResult, ...]
    published: tuple[PublishedComparison, ...]
    caveats: tuple[Caveat, ...]
    sweeps: tuple[Sweep, ...] = ()
    health: tuple[HealthItem, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    endurance: tuple[Endurance, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    pairs: tuple[Pair, ...] = ()
    standings: tuple[Standing, ...] = ()
    acceptance: tuple[LimitResult, ...] = ()
    precision: Precision | None = None

    @property
    def problems(self) -> tuple[HealthItem, ...]:
        """The health checks that did not pass, failures first."""
        levels = (Level.FAIL, Level.ATTENTION)
        return tuple(item for level in levels for item in self.health if item.level is level)

    @property
    def variants(self) -> Iterator[tuple[CaseResult, str, VariantResult]]:
        """The variants of all cases: case, name, result."""
        return ((case, name, result) for case in self.cases for name, result in case.variants.items())

    def cases_of(self, workload: str) -> tuple[CaseResult, ...]:
        """Return the cases of a workload, one for each device."""
        return tuple(case for case in self.cases if case.workload == workload)
