"""What is kept of a run when many are compared, and what a comparison or a history of them says.

An Extract is a few kilobytes, so that hundreds of runs can be held at once; like Analysis it is computed
from a run and can be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.analysis import Estimate
from harness.model.run import SMOKE
from harness.model.scaling import Scaling
from workloads.protocol import TENSORFLOW

EXTRACT_VERSION = 1
# The section of Extract.facts that says what was asked for.
SETTINGS = "profile and parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One workload, device and variant of a run.

    Attributes:
        throughput: samples/s, one value a trial, in the order of the trials.
        summary: their median and interval, as the run's own report has them.
        trial_ids: the trials, in the same order.
        energy_j_per_sample: median, or None; `energy_source` says whose joules they are.
        training_s: median time for the published epochs, or None.
        cost_per_million: money for a million samples in Extract.currency, or None.
    """

    workload: str
    device: str
    variant: str
    throughput: tuple[float, ...]
    trial_ids: tuple[str, ...]
    batch_size: int
    summary: Estimate | None = None
    energy_j_per_sample: float | None = None
    energy_source: str = ""
    training_s: float | None = None
    cost_per_million: float | None = None
    accuracy_ok: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What holds one workload back on one device, in the words of the run's own report."""

    workload: str
    device: str
    rule: str
    cause: str
    sentence: str
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """A run in brief.

    Attributes:
        label: what a page calls the run; its id unless the caller knows better, as a node's name.
        source: the path or address that it was read from, "" when there is none.
        machine: the kind of machine in words, the same for machines that are the same.
        facts: section -> field -> value, all text: what may differ between two runs. The sections are in
            harness.analysis.facts.
        adaptive: whether the number of trials was left to the width of the interval.
        planned, ok: how many trials there were to be, and how many ended well.
        unfinished: whether it was still being measured, or cut short.
        families: workload -> the family of images that it runs in, as its declaration says.
        swept: how many points of a sweep it has; none of `speeds` is of one.
    """

    run_id: str
    label: str
    created: str
    tfbench_version: str
    machine: str
    facts: Mapping[str, Mapping[str, str]]
    speeds: tuple[Speed, ...]
    causes: tuple[Cause, ...]
    titles: Mapping[str, str]
    cards: Mapping[str, str]
    adaptive: bool
    planned: int
    ok: int
    headline: str = ""
    source: str = ""
    currency: str = ""
    warnings: tuple[str, ...] = ()
    unfinished: bool = False
    families: Mapping[str, str] = field(default_factory=dict)
    swept: int = 0

    @property
    def tried_out(self) -> bool:
        """As Run.tried_out."""
        return self.facts.get(SETTINGS, {}).get("profile") == SMOKE

    def family(self, workload: str) -> str:
        """Return a workload's family of images; TensorFlow's where the extract does not say."""
        return self.families.get(workload, TENSORFLOW)


class Outcome(StrEnum):
    """What an interval says about a ratio of speeds, 1 being no difference."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference shown"
    UNKNOWN = "one trial, no interval"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The interval that holds together with all others of a comparison, 95 times in 100."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The speed of one run over the reference's, for one workload, device and variant.

    Attributes:
        run: position in Versus.runs.
        speed: geometric mean of the run's trials, samples/s.
        ratio: with the 95 % interval of this ratio alone.
        joint: the interval that `outcome` goes by; None where there is none.
        detectable: the smallest slowdown, as a share, that a comparison of so many trials of such noise
            finds 95 times in 100.
        trials_needed: trials a side with which a slowdown of Versus.target would be found so often.
        unlike: subjects in which the two sides are not alike, as "data".
        tested: whether it counts among the comparisons that hold together; others have no outcome.
    """

    run: int
    workload: str
    device: str
    variant: str
    speed: float
    ratio: Estimate
    joint: Joint | None
    outcome: Outcome
    detectable: float | None = None
    trials_needed: int | None = None
    unlike: tuple[str, ...] = ()
    tested: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest device and variant of a run for one workload."""

    run: int
    workload: str
    device: str
    variant: str
    speed: float
    ratio: Estimate
    energy_j_per_sample: float | None
    energy_source: str
    cost_per_million: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run's place: the geometric mean, over workloads, of its best speed over the reference's."""

    run: int
    score: Estimate
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Runs on machines that are the same by their description.

    Attributes:
        score: median of their scores with its interval over runs.
        spread: coefficient of variation of their scores; None with under three.
    """

    machine: str
    runs: tuple[int, ...]
    score: Estimate
    spread: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that is not the same in all runs; `values` has one value a run, "" where unknown."""

    section: str
    field: str
    values: tuple[str, ...]
    unlike: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """Why runs are not comparable as they stand: one subject, and a sentence for people."""

    subject: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """Runs side by side.

    Attributes:
        runs: each with a label of its own.
        reference: position in `runs` of the run that ratios are over. None for the median of the runs on
            the same kind of machine, with intervals by the spread of the kind, and for the median of all
            where there are too few of a kind; bests and standings are then over the median of all.
        bests, standings, kinds: the fastest of each run, and runs and kinds of machine by it, fastest first.
        tests: how many comparisons hold together.
        same: how many fields are the same in all runs.
        target: the slowdown, as a share, that `trials_needed` is about.
        caution: which runs only tried out whether all works; "" where all measured.
        scaling: what the runs are numbers of workers of; None where each is a machine by itself.
    """

    runs: tuple[Extract, ...]
    reference: int | None
    ratios: tuple[Ratio, ...]
    bests: tuple[Best, ...]
    standings: tuple[Standing, ...]
    kinds: tuple[Kind, ...]
    differences: tuple[Difference, ...]
    unlikes: tuple[Unlike, ...]
    tests: int
    same: int
    target: float
    headline: str = ""
    caution: str = ""
    notes: tuple[str, ...] = ()
    scaling: Scaling | None = None


class Word(StrEnum):
    """What a check against a baseline says about one workload, device and variant."""

    SLOWER = "slower"
    SLIGHTLY = "slower, but by less than the limit"
    WITHIN = "not slower by the limit"
    OPEN = "cannot be told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison against the baseline and what it means for a limit."""

    ratio: Ratio
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All comparisons against a baseline; `limit` is a share of speed that may be lost."""

    limit: float
    checks: tuple[Check, ...]
    missing: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks for which something is slower beyond doubt."""
        return tuple(check for check in self.checks if check.word is Word.SLOWER)
