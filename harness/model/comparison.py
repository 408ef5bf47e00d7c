"""A run in brief, and several of them beside each other: numbers and facts, no sentences.

An Extract is a few kilobytes, so that hundreds of runs can be compared; it can be made again from its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.analysis import Caveat, Estimate, Finding, Key, Keyed, StepTime
from harness.model.run import SMOKE
from harness.model.workers import Scaling
from workloads.protocol import TENSORFLOW


class Section(StrEnum):
    """What a fact about a run belongs to."""

    MACHINE = "machine"  # MLPerf's system description and what else is known of the host
    LIMITS = "limits"  # what the containers may use of it
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
    """Baseline or tuned of one workload and device in a run.

    Attributes:
        throughput: samples/s, one value a trial, in the order of the trials.
        energy_j_per_sample: median, or None; `energy_source` says whose joules they are.
        cost_per_million: money for a million samples in Extract.currency, or None.
        learned: whether it reached the accuracy that the workload asks for; None where that is not known.
    """

    throughput: tuple[float, ...]
    batch_size: int
    energy_j_per_sample: float | None = None
    energy_source: str = ""
    cost_per_million: float | None = None
    learned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """A run in brief.

    Attributes:
        label: what a page calls the run; its id unless the caller knows better, as a node's name.
        machine: the kind of machine: the same text for machines of the same description.
        facts: what may differ between two runs, as text.
        findings: for each workload and device what limits it most.
        caveats: the warnings.
        images: workload -> the family of images that it runs in.
        duration_s: of all trials together.
        adaptive: whether the number of trials was left to the width of the interval.
        planned, ok: how many trials there were to be, and how many ended well.
        unfinished: whether it was still being measured, or cut short.
        swept: how many points of a sweep it has; none of `speeds` is of one.
        source: the path that it was read from, "" when there is none.
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
        """Whether it only checked that everything works."""
        return self.facts.get(Section.SETTINGS, {}).get("profile") == SMOKE

    def image(self, workload: str) -> str:
        """Return a workload's family of images; TensorFlow's where the extract does not say."""
        return self.images.get(workload, TENSORFLOW)


class Outcome(StrEnum):
    """What an interval says about a ratio of speeds, 1 being no difference."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    UNKNOWN = "one trial"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Keyed):
    """One workload, device and variant of a run, over the reference's.

    Attributes:
        run: position in Versus.runs.
        speed: samples/s, as the run's own report has it.
        ratio: of the medians, with an interval that holds together with all others of the comparison, 95
            times in 100; None for the reference itself, and where the reference has no such speed.
        not_comparable: the sections in which the two sides differ in what changes the meaning of a speed.
    """

    run: int
    speed: Estimate
    ratio: Estimate | None = None
    outcome: Outcome = Outcome.NOT_COMPARED
    not_comparable: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run's place: the geometric mean, over workloads, of its best speed over the reference's best."""

    run: int
    score: Estimate
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend(Keyed):
    """One workload, device and variant over several runs of one machine, the earliest first.

    Attributes:
        change: the last speed over the first less one, by a robust line; None where chance explains it.
    """

    machine: str
    runs: tuple[int, ...]
    change: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that is known of all runs and not the same; one value a run.

    Attributes:
        comparable: whether speeds mean the same all the same.
    """

    section: Section
    field: str
    values: tuple[str, ...]
    comparable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """Runs side by side.

    Attributes:
        runs: each with a label of its own.
        reference: position in `runs` of the run that ratios and standings are over.
        by_kind: ratios are over the median run on the same kind of machine instead, and `reference` is that
            of the commonest kind.
        standings: the fastest first.
        trends: of machines with enough runs one after the other.
        tests: how many comparisons hold together.
        scaling: what the runs are numbers of workers of; None where each is a machine by itself.
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
    """What a check against a baseline says about one workload, device and variant."""

    SLOWER = "slower"
    SLIGHTLY = "slower, within the limit"
    WITHIN = "within the limit"
    OPEN = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison against the baseline and what it means for a limit."""

    result: Result
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All comparisons against a baseline.

    Attributes:
        limit: the share of speed that may be lost.
        missing: what the baseline has and a run has not, beside the run's position.
    """

    limit: float
    checks: tuple[Check, ...]
    missing: tuple[tuple[int, Key], ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks for which something is slower."""
        return tuple(check for check in self.checks if check.decision is Decision.SLOWER)
