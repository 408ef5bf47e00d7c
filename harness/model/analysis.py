"""What is said of a run: computed from it anew each time, and never stored as truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.model.run import Point, Run, Scalar, Status
from workloads.protocol import Change, Published


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median with its 95 % bootstrap interval over `n` independent values; n == 1 has no interval."""

    median: float
    low: float
    high: float
    n: int
    unit: str


class Bound(StrEnum):
    """Whether the true figure lies below or above the one given."""

    NONE = ""
    UPPER = "upper bound"
    LOWER = "lower bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One workload, device and variant over all its finished trials.

    Attributes:
        throughput: samples/s in steady state.
        step_time: seconds a step, synchronised windows divided by their steps.
        step_quantiles: quantile ("p50", "p90", "p99", "max") -> seconds, of single steps.
        wait_share: share of the steady time spent waiting for input, between 0 and 1.
        training_s: time for the published epochs; `training_projected` tells projected from measured.
        training_how: how it is known, in words that follow "it is"; "" without it.
        training_bound: upper where only the first epoch was measured and a cache speeds up those after it.
        cold_start: (phase, seconds) in order, everything before steady state.
        telemetry: "source.device.metric" -> mean over steady state (median over trials).
        energy_j_per_sample: from the GPU's counter, or None.
        accuracy: on held-out data, or None.
        epoch_s: time for one pass through the training data at the steady speed, or None.
        trial_ids: where every figure comes from.
    """

    workload: str
    device: str
    variant: str
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
    epoch_s: float | None = None
    training_how: str = ""
    training_bound: Bound = Bound.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Requests at one batch size (SingleStream), or at one rate of one trial (Server).

    Attributes:
        rate_per_s: samples offered a second; None where each request waited for the one before.
        samples_per_s: what was served.
        quantiles_s: "p50", "p90", "p99" -> seconds, over the requests of all trials; those missing for which
            there were too few.
        requests, planned: how many were served, and how many there were to be.
    """

    workload: str
    device: str
    variant: str
    scenario: str
    batch_size: int
    rate_per_s: float | None
    samples_per_s: Estimate
    quantiles_s: Mapping[str, float]
    requests: int
    planned: int
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The largest rate of single samples at which the 99th percentile of latency kept to a bound.

    Attributes:
        rate_per_s: over the trials in which a rate kept to the bound, `n` of them; None unless these are more
            than half.
        at_least: rates were looked for at a smaller bound, to which one kept: more may keep to this one.
        why: how it came that there is none; "" where there is one.
        trial_ids: all that were asked.
    """

    workload: str
    device: str
    variant: str
    bound_s: float
    rate_per_s: Estimate | None
    at_least: bool
    why: str
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A ratio of two summaries' throughputs with its interval, e.g. gpu0 over cpu, tuned over baseline."""

    workload: str
    kind: str  # "gpu-over-cpu", "tuned-over-baseline", "scaling"
    numerator: str  # "device/variant"
    denominator: str
    ratio: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published number beside the measured one in the same unit.

    Attributes:
        value, upto: the number, or the two ends of a published range; upto is 0 for a single number.
        measured: None where nothing matches; measured_label says of what it is.
        factor: how many times the published speed (or ratio) the measured one is, against the nearer end of
            a range, 1 within it; None for units in which a ratio says nothing, and where nothing is measured.
        reasons: why the two may differ, in sentences, from what this run knows; the weightiest first.
    """

    workload: str
    device: str
    source: str
    system: str
    value: float
    unit: str
    note: str
    measured: Estimate | None
    measured_label: str
    upto: float = 0.0
    factor: Estimate | None = None
    reasons: tuple[str, ...] = ()


class Finding(StrEnum):
    """What a rule concluded."""

    FOUND = "found"
    CLEAR = "clear"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number that a rule looked at; `threshold` says what would have changed the outcome."""

    metric: str
    observed: str
    threshold: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about a finding. Gains are throughput ratios; measured is None until a variant has shown it.

    Attributes:
        at_least: the prediction is a lower bound.
        measured_variant: the variant that showed the measured gain, "" without one.
        miss: by which share the measured gain misses the prediction, where that is more than is allowed;
            negative when it is less than was predicted.
        not_judged: why the prediction cannot be held against the measured gain; "" where it can be, and where
            one of them is missing.
    """

    text: str
    code: str
    predicted_gain: float | None
    measured_gain: Estimate | None
    at_least: bool = False
    measured_variant: str = ""
    miss: float | None = None
    not_judged: str = ""

    @property
    def fails(self) -> bool:
        """Whether it was tried and made nothing faster."""
        return self.measured_gain is not None and self.measured_gain.median <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rule's word on one workload and device; `cost` is the share of time lost to the cause."""

    workload: str
    device: str
    rule: str
    finding: Finding
    cause: str
    sentence: str
    evidence: tuple[Evidence, ...]
    cost: float | None
    remedy: Remedy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of an input pipeline.

    Attributes:
        start_s, cost_s: seconds a sample before it, and that it adds.
        share: of the whole pipeline's time.
        ceiling: samples/s of the pipeline up to and including it.
    """

    name: str
    start_s: float
    cost_s: float
    share: float
    ceiling: float
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The input pipeline of a workload on a device, stage by stage; speeds in samples/s where measured.

    Attributes:
        baseline, model: what training reaches, and what the model alone could take.
        first_epoch, cached: the pipeline by itself before its caches are full, and after.
        running: how it uses the CPUs, in words.
    """

    workload: str
    device: str
    stages: tuple[Stage, ...]
    baseline: float | None
    model: float | None
    first_epoch: float | None
    cached: float | None
    running: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Where the time of a trial passes: medians over the trials of a workload on a device, in seconds.

    Attributes:
        benchmark_s: variants of the benchmark itself: baseline, tuned, and optimizations that were asked for.
        verdict_s: all other variants, which --no-analysis leaves out.
        rest_s: starting the container, importing, data, and waiting between windows.
        ratio: the second over the first, trial by trial; None where the first were not run.
    """

    workload: str
    device: str
    benchmark_s: float
    verdict_s: float
    rest_s: float
    ratio: float | None
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Something a reader must know before trusting a figure: `severity` is "note" or "warning"."""

    severity: str
    subject: str
    fact: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A parameter that a sweep varies.

    Attributes:
        values: in the order asked for.
        effect: the fastest value's speed over the slowest's, each averaged over all other axes; None where
            that cannot be told.
    """

    name: str
    values: tuple[Scalar, ...]
    effect: float | None


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
    step_time: Estimate | None
    energy_j_per_sample: Estimate | None
    accuracy: float | None
    over_best: Estimate | None
    tied: bool | None
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A workload's speed over a grid of parameters on one device, one variant of it.

    Attributes:
        points: all that was planned, in the grid's order, the last axis running fastest.
        best: the one with the greatest median throughput, None where nothing was measured.
    """

    workload: str
    device: str
    variant: str
    axes: tuple[Axis, ...]
    points: tuple[SweepPoint, ...]
    best: SweepPoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one workload, device and variant takes in money and energy; None where price or reading is
    missing.

    Attributes:
        per_hour: price of an hour, in the manifest's currency.
        training: money for the published epochs, steady state only, as `Summary.training_s`, whose
            `training_projected` and `training_bound` hold for it too.
        per_million_samples: money for a million samples.
        training_kwh: energy for the published epochs, of what `Summary.energy_source` covers.
        electricity_training, electricity_per_million_samples: money for that energy alone.
    """

    workload: str
    device: str
    variant: str
    per_hour: float | None
    training: Estimate | None
    training_projected: bool
    per_million_samples: Estimate | None
    energy_j_per_sample: Estimate | None
    energy_source: str
    training_kwh: Estimate | None
    electricity_training: Estimate | None
    electricity_per_million_samples: Estimate | None
    training_bound: Bound = Bound.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRatio:
    """What the same work costs on the CPU over what it costs on `device`, the same variant on both.

    Attributes:
        ratio: of money; above 1 the device is cheaper.
        time_ratio: of time alone.
        break_even: the price of an hour of the device at which both cost the same.
    """

    workload: str
    device: str
    variant: str
    ratio: Estimate
    time_ratio: Estimate
    break_even: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything the report says, computed from a Run and nothing else.

    Attributes:
        cost_claim: what was published about cost in general, where `cost_ratios` stand beside it.
    """

    run: Run
    headline: str
    summaries: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]
    published: tuple[PublishedComparison, ...]
    verdicts: tuple[Verdict, ...]
    quality: tuple[Quality, ...]
    latencies: tuple[Latency, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    costs: tuple[Cost, ...] = ()
    cost_ratios: tuple[CostRatio, ...] = ()
    cost_claim: Published | None = None
    sweeps: tuple[Sweep, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    spent: tuple[Spent, ...] = ()
