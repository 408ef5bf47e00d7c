"""Run extracts and their comparison: numbers and facts, no sentences.

An Extract is a few kilobytes, so hundreds of runs can be compared. It can be recomputed from its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.analysis import Caveat, Estimate, Finding, Key, Keyed, StepTime
from harness.model.multi_node import Scaling
from harness.model.run import SMOKE


class Section(StrEnum):
    """Categories of facts about a run."""

    MACHINE = "machine"  # MLPerf system description and other host facts
    LIMITS = "limits"  # resource limits of the containers
    GPUS = "GPUs"
    DRIVER = "driver"
    SOFTWARE = "software"
    IMAGES = "images"
    DATA = "data"
    SETTINGS = "settings"  # profile, options and parameters
    WORKLOADS = "workloads"


Facts = Mapping[Section, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(Keyed):
    """Speed of baseline or tuned on one workload and device in a run.

    Attributes:
        throughput: samples/s of each trial, in order.
        energy_j_per_sample: median, as measured by `energy_source`, or None.
        cost_per_million: cost of a million samples in Extract.currency, or None.
        learned: whether training reached the workload's required accuracy; None if unknown.
    """

    throughput: tuple[float, ...]
    batch_size: int
    energy_j_per_sample: float | None = None
    energy_source: str = ""
    cost_per_million: float | None = None
    learned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """Summary of a run for comparisons.

    Attributes:
        label: display name; the run id unless the caller has a better one, such as a node name.
        machine: kind of machine; identical text for machines with the same description.
        facts: values that may differ between two runs, as text.
        findings: the main finding for each workload and device.
        caveats: warnings only, no notes.
        images: workload -> its image family.
        duration_s: total of all trials.
        adaptive: whether trials were repeated until the interval was narrow enough.
        planned, ok: number of planned and of successful trials.
        unfinished: whether the run was still going on or was cut short.
        swept: number of sweep points, which `speeds` does not include.
        source: path that the run was read from, or "".
    """

    run_id: str
    label: str
    created: str
    machine: str
    facts: Facts
    speeds: tuple[Speed, ...]
    step_times: tuple[StepTime, ...] = ()
    findings: tuple[Finding, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    adaptive: bool = False
    planned: int = 0
    ok: int = 0
    unfinished: bool = False
    swept: int = 0
    currency: str = ""
    source: str = ""

    @property
    def smoke(self) -> bool:
        """Whether this is a smoke run, whose numbers mean nothing."""
        return self.facts.get(Section.SETTINGS, {}).get("profile") == SMOKE


class Outcome(StrEnum):
    """Conclusion from the interval of a speed ratio; 1 means no difference."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    UNKNOWN = "one trial"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Keyed):
    """One workload, device and variant of a run compared with the reference.

    Attributes:
        run: position in Versus.runs.
        speed: samples/s, as in the run's own report.
        ratio: ratio of the medians with a simultaneous 95 % interval over all comparisons; None for the
            reference itself and if the reference has no such speed.
        not_comparable: sections with differences that change what a speed means.
    """

    run: int
    speed: Estimate
    ratio: Estimate | None = None
    outcome: Outcome = Outcome.NOT_COMPARED
    not_comparable: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run's score: geometric mean over workloads of its best speed / the reference's best speed."""

    run: int
    score: Estimate
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend(Keyed):
    """One workload, device and variant over successive runs on one machine, earliest first.

    Attributes:
        change: relative change from the first run to the last, by a robust line; None if not significant.
    """

    machine: str
    runs: tuple[int, ...]
    change: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that is known for all runs and differs; one value per run.

    Attributes:
        comparable: whether speeds are comparable in spite of it.
    """

    section: Section
    field: str
    values: tuple[str, ...]
    comparable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """A comparison of runs.

    Attributes:
        runs: with unique labels.
        reference: position in `runs` of the run that ratios and standings are relative to.
        by_kind: ratios are relative to the median run on the same kind of machine instead, and `reference`
            is the median run of the commonest kind.
        standings: fastest first.
        trends: for machines with enough successive runs.
        tests: number of simultaneous comparisons.
        scaling: set if the runs are the same training with different numbers of workers.
    """

    runs: tuple[Extract, ...]
    reference: int
    by_kind: bool
    results: tuple[Result, ...]
    standings: tuple[Standing, ...]
    trends: tuple[Trend, ...]
    differences: tuple[Difference, ...]
    tests: int
    scaling: Scaling | None = None


class Decision(StrEnum):
    """Outcome of a check against a baseline for one workload, device and variant."""

    SLOWER = "slower"
    SLIGHTLY = "slower, within the limit"
    WITHIN = "within the limit"
    OPEN = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison with the baseline and the resulting decision."""

    result: Result
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All comparisons with a baseline.

    Attributes:
        limit: tolerated loss of speed, as a share.
        missing: (position of a run, key of the baseline that this run lacks).
    """

    limit: float
    checks: tuple[Check, ...]
    missing: tuple[tuple[int, Key], ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        """The failed checks."""
        return tuple(check for check in self.checks if check.decision is Decision.SLOWER)

    @property
    def is_empty(self) -> bool:
        """Whether nothing could be decided: there are no common speeds, or only single trials."""
        return not any(check.result.ratio and check.result.ratio.n > 1 for check in self.checks)
