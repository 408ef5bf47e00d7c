"""What the templates of a comparison see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from harness.model.analysis import Estimate
from harness.model.comparison import Best, Cause, Extract, Gate, Kind, Outcome, Ratio, Standing, Versus
from harness.model.scaling import Placement, Point
from harness.rounding import counted, some
from reports import numbers
from reports.charts import Figure
from reports.names import device_name, titles_of, variant_name
from reports.page import SENTENCE_END, Banner
from reports.together_charts import rate, share_interval

_NOTES = 8
_MARKS = {
    Outcome.FASTER: "▲",
    Outcome.SLOWER: "▼",
    Outcome.SAME: "=",
    Outcome.UNKNOWN: "?",
    Outcome.UNTESTED: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A workload, device and variant that runs are compared in."""

    workload: str
    device: str
    variant: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePage:
    """A comparison made ready for templates.

    Attributes:
        anchors: none; trials are in the runs' own reports.
    """

    versus: Versus
    gate: Gate | None
    figures: Mapping[str, Figure]
    stills: Mapping[str, Markup]
    titles: Mapping[str, str]
    anchors: Mapping[str, str]
    banners: tuple[Banner, ...]
    version: str

    @property
    def runs(self) -> tuple[Extract, ...]:
        """The runs, in the order in which they were given."""
        return self.versus.runs

    def headline(self) -> tuple[str, str]:
        """Give the headline's first sentence, which is set large, and the rest."""
        first, *rest = SENTENCE_END.split(self.versus.headline, maxsplit=1)
        return first, " ".join(rest)

    def title(self) -> str:
        """Name the comparison."""
        if self.versus.scaling is not None:
            counts = [str(workers) for workers in self.versus.scaling.placements]
            return f"Training over {' and '.join(filter(None, (', '.join(counts[:-1]), counts[-1])))} workers"
        kinds = len({run.machine for run in self.runs})
        if len(self.runs) == 2:
            return f"{self.runs[1].label} against {self.runs[0].label}"
        where = counted(kinds, "kind of machine", "kinds of machine")
        return f"{counted(len(self.runs), 'run')} on {where}"

    def over(self) -> str:
        """Say what the ratios of single workloads are over."""
        if self.versus.reference is None:
            return "the median of its kind of machine"
        return self.runs[self.versus.reference].label

    def scored_over(self) -> str:
        """Say what scores are over."""
        if self.versus.reference is None:
            return "the median of all runs"
        return self.runs[self.versus.reference].label

    def label(self, run: int) -> str:
        """Give a run's label."""
        return self.runs[run].label

    def cells(self, *, tested: bool) -> tuple[Cell, ...]:
        """Give what runs are compared in: the variants that are tested, or the others."""
        return cells(self.versus, tested=tested)

    def ratios(self, cell: Cell) -> tuple[Ratio, ...]:
        """Give the ratios of one cell, in the order of the runs."""
        key = (cell.workload, cell.device, cell.variant)
        return tuple(one for one in self.versus.ratios if (one.workload, one.device, one.variant) == key)

    def reference_speed(self, cell: Cell) -> str:
        """Write the reference's own speed as ratios are over it; "" where that is the median of all."""
        if self.versus.reference is None:
            return ""
        one = self.ratios(cell)[0]
        return numbers.number(one.speed / one.ratio.median, 4)

    def bests(self, run: int) -> tuple[Best, ...]:
        """Give a run's best of every workload."""
        return tuple(one for one in self.versus.bests if one.run == run)

    def place(self, standing: Standing) -> str:
        """Write a run's score."""
        if standing.run == self.versus.reference:
            return "1 (reference)"
        return numbers.factor_estimate(standing.score)

    def placed(self) -> tuple[tuple[int, Standing | None], ...]:
        """Give all runs, the fastest first and those without a score last."""
        first = [(one.run, one) for one in self.versus.standings]
        places = {run for run, _ in first}
        return (*first, *((run, None) for run in range(len(self.runs)) if run not in places))

    def costed(self) -> tuple[tuple[Best, str], ...]:
        """Give what has an energy reading or a price and whose it is, by workload, the thriftiest first."""
        found = [one for one in self.versus.bests if _has_cost(one)]
        order = {name: number for number, name in enumerate(self.titles)}
        found.sort(key=lambda one: (order.get(one.workload, 0), *_expense(one)))
        return tuple((one, self.label(one.run)) for one in found)

    def money(self, best: Best) -> str:
        """Write what a million samples cost."""
        if best.cost_per_million is None:
            return "–"
        return f"{numbers.number(best.cost_per_million)} {self.runs[best.run].currency}".strip()

    def longer(self, point: Point) -> str:
        """Write what a step takes longer than with one worker."""
        if point.added_s is None or point.workers == 1:
            return "–"
        sign = "" if point.added_s >= 0 else "−"
        return f"{sign}{numbers.duration(abs(point.added_s))}"

    def share_interval(self, value: Estimate) -> str:
        """Write the interval of a share in percent."""
        return share_interval(value)

    def rate(self, bytes_per_s: float | None) -> str:
        """Write bytes a second."""
        return rate(bytes_per_s)

    def divided(self, placement: Placement) -> str:
        """Say whose the CPUs of workers are."""
        if placement.oversubscribed:
            return "used by all workers of a machine alike"
        if len(set(placement.machines)) < len(placement.machines):
            return "divided among a machine's workers"
        return "each worker's own"

    def weakest(self) -> tuple[Ratio, ...]:
        """Give for each workload, device and variant the comparison that finds least."""
        found: dict[tuple[str, str, str], Ratio] = {}
        for one in self.versus.ratios:
            key = (one.workload, one.device, one.variant)
            if one.tested and (key not in found or _blindness(one) > _blindness(found[key])):
                found[key] = one
        return tuple(found.values())

    def kind_runs(self, kind: Kind) -> str:
        """Name a kind's runs, or count them."""
        names = [self.label(run) for run in kind.runs]
        return some(names)

    def noted(self) -> tuple[tuple[Extract, str], ...]:
        """Give the warnings of the runs' own reports."""
        return tuple((run, warning) for run in self.runs for warning in run.warnings)

    def cause(self, run: int, workload: str, device: str) -> Cause | None:
        """Give what holds a run back."""
        for one in self.runs[run].causes:
            if (one.workload, one.device) == (workload, device):
                return one
        return None

    def measured(self, run: int, workload: str, device: str) -> bool:
        """Tell whether a run measured a workload on a device."""
        return any((one.workload, one.device) == (workload, device) for one in self.runs[run].speeds)

    def subjects(self) -> tuple[tuple[str, str], ...]:
        """Give each workload and device that any run measured."""
        found = dict.fromkeys((one.workload, one.device) for run in self.runs for one in run.speeds)
        return tuple(found)


def _has_cost(best: Best) -> bool:
    return best.energy_j_per_sample is not None or best.cost_per_million is not None


def _expense(best: Best) -> tuple[float, float]:
    unknown = float("inf")
    money, energy = best.cost_per_million, best.energy_j_per_sample
    return unknown if money is None else money, unknown if energy is None else energy


def _blindness(one: Ratio) -> float:
    return float("inf") if one.detectable is None else one.detectable


def mark(outcome: Outcome) -> str:
    """Give the sign that stands for an outcome; the word always stands beside it."""
    return _MARKS[outcome]


def cells(versus: Versus, *, tested: bool) -> tuple[Cell, ...]:
    """Give what runs are compared in, in the order in which the first run has it."""
    found: dict[tuple[str, str, str], Cell] = {}
    for one in versus.ratios:
        if one.tested is tested:
            name = f"{one.workload}, {device_name(one.device)} {variant_name(one.variant)}"
            cell = Cell(workload=one.workload, device=one.device, variant=one.variant, name=name)
            found.setdefault((one.workload, one.device, one.variant), cell)
    return tuple(found.values())


def titles_of(versus: Versus) -> dict[str, str]:
    """Give each workload's title by its name."""
    found: dict[str, str] = {}
    for run in versus.runs:
        for name, title in run.titles.items():
            found.setdefault(name, title)
        for speed in run.speeds:
            found.setdefault(speed.workload, speed.workload)
    return found


def banners(versus: Versus, gate: Gate | None) -> tuple[Banner, ...]:
    """Say first what a reader must know before the numbers: what was asked for, then what is not alike."""
    found = []
    if gate is not None and gate.failed:
        failed = len(gate.failed)
        which = f"{failed} of {counted(len(gate.checks), 'comparison')}"
        text = f"{which} {'is' if failed == 1 else 'are'} slower than the baseline allows."
        found.append(Banner(severity="warning", text=text))
    if versus.caution:
        found.append(Banner(severity="warning", text=versus.caution))
    found += [
        Banner(severity="warning", text=f"Unlike things are compared: {one.sentence}")
        for one in versus.unlikes
    ]
    caveats = versus.scaling.caveats if versus.scaling is not None else ()
    found += [Banner(severity="note", text=one) for one in caveats]
    found += [Banner(severity="note", text=note) for note in versus.notes[:_NOTES]]
    if len(versus.notes) > _NOTES:
        more = len(versus.notes) - _NOTES
        text = f"{counted(more, 'more run')} {'is' if more == 1 else 'are'} incomplete."
        found.append(Banner(severity="note", text=text))
    return tuple(found)
