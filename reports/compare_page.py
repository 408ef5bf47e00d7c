"""What the templates of a comparison see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.model.analysis import StepTime
from harness.model.comparison import Check, Extract, Gate, Outcome, Result, Speed, Standing, Trend, Versus
from harness.model.scaling import Placement
from harness.rounding import short_digests, some
from reports import compare_messages as messages
from reports import numbers
from reports.charts import Figure
from reports.messages import caveat_lines, device_of_row, limit
from reports.names import variant_name
from workloads.protocol import BASELINE, TUNED

# Runs with a column, or a bar, of their own.
SHOWN = 4
# Of those, runs that fall out of their kind.
_OUTLIERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A workload and device of one run: what was measured, and what limits the baseline."""

    baseline: Result | None
    tuned: Result | None
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workload and device, with a cell for each of the shown runs."""

    workload: str
    device: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePage:
    """A comparison made ready for templates.

    Attributes:
        names: of the runs.
        shown: positions of the runs with a column of their own.
        stills: figure id -> SVG, for those that have one.
    """

    versus: Versus
    gate: Gate | None
    version: str
    names: tuple[str, ...]
    shown: tuple[int, ...]
    figures: Mapping[str, Figure]
    stills: Mapping[str, Markup]

    @property
    def runs(self) -> tuple[Extract, ...]:
        """The runs, in the order in which they were given."""
        return self.versus.runs

    def title(self) -> str:
        """Name the comparison."""
        return messages.title(self.versus, self.names)

    def headline(self) -> str:
        """Return at most two sentences."""
        return messages.headline(self.versus, self.names)

    def warnings(self) -> list[str]:
        """Return what must be known before any number."""
        return list(messages.warnings(self.versus, self.gate))

    def notes(self) -> list[str]:
        """Return what is to be known beside it: incomplete runs, workers that share a machine."""
        scaling = self.versus.scaling
        together = messages.scaling_caveats(scaling.placements) if scaling else ()
        return [*together, *messages.notes(self.versus)]

    def machines(self) -> list[str]:
        """Return the kinds of machine."""
        return list(dict.fromkeys(run.machine for run in self.runs))

    def over(self) -> str:
        """Name what ratios are over."""
        return (
            "the median of its kind" if self.versus.reference is None else self.names[self.versus.reference]
        )

    def rows(self) -> list[Row]:
        """Return the overview: a row for each workload and device that a shown run measured."""
        results = {(each.run, each.workload, each.device, each.variant): each for each in self.versus.results}
        pairs = dict.fromkeys(
            (each.workload, each.device) for each in self.versus.results if each.run in self.shown
        )
        return [
            Row(
                workload=workload,
                device=device,
                cells=tuple(
                    Cell(
                        baseline=results.get((run, workload, device, BASELINE)),
                        tuned=results.get((run, workload, device, TUNED)),
                        limit=limit_of(self.runs[run], workload, device),
                    )
                    for run in self.shown
                ),
            )
            for workload, device in pairs
        ]

    def device(self, device: str) -> str:
        """Return a device's name; "GPU" where there is only one."""
        return device_in(self.versus, device)

    def what(self, each: Result | Speed | Trend) -> str:
        """Name a workload, device and variant."""
        return f"{each.workload}, {self.device(each.device)}, {variant_name(each.variant)}"

    def mark(self, result: Result) -> str:
        """Return the sign of an outcome."""
        return messages.MARKS[result.outcome]

    def method(self) -> str:
        """Return how speeds were compared."""
        return messages.method(self.versus)

    def missing(self) -> list[str]:
        """Name what the baseline has and a run has not."""
        missing = self.gate.missing if self.gate else ()
        return [f"{self.names[run]}: {' '.join(key)}" for run, *key in missing]

    def checks(self) -> tuple[Check, ...]:
        """Return the checks against the baseline."""
        return self.gate.checks if self.gate else ()

    def compared(self) -> list[Result]:
        """Return the results that have a ratio."""
        return [each for each in self.versus.results if each.ratio is not None]

    def weakest(self) -> list[Result]:
        """Return for each workload, device and variant the comparison that finds least."""
        found: dict[tuple[str, str, str], Result] = {}
        for each in self.compared():
            key = (each.workload, each.device, each.variant)
            if key not in found or _blindness(each) > _blindness(found[key]):
                found[key] = each
        return list(found.values())

    def differences(self, *, comparable: bool) -> list[tuple[str, list[str]]]:
        """Return "section: field" and its values, one a column, of those with which speeds stay comparable or not."""
        return [
            (f"{each.section.value}: {each.field}", self._values(each.values))
            for each in self.versus.differences
            if each.comparable is comparable
        ]

    def _values(self, values: Sequence[str]) -> list[str]:
        """Return a value a run, or where they are many one text with the runs of each value."""
        texts = [short_digests(value) for value in values]
        if len(self.runs) <= SHOWN:
            return texts
        holders = {
            text: [name for name, own in zip(self.names, texts, strict=True) if own == text] for text in texts
        }
        return ["; ".join(f"{text} ({some(names)})" for text, names in holders.items())]

    def caveats(self) -> list[tuple[str, list[str]]]:
        """Return the warnings of the shown runs' own reports, each with the runs that have it."""
        found: dict[str, list[str]] = {}
        for run in self.shown:
            for _, text, _ in caveat_lines(self.runs[run].caveats):
                found.setdefault(text, []).append(self.names[run])
        return list(found.items())

    def costed(self) -> list[tuple[str, Extract, Speed]]:
        """Return the speeds with an energy reading or a price."""
        return [
            (self.names[run], self.runs[run], speed)
            for run in self.shown
            for speed in self.runs[run].speeds
            if speed.energy_j_per_sample is not None or speed.cost_per_million is not None
        ]

    def ranked(self) -> list[tuple[int, Standing | None]]:
        """Return all runs, the fastest first and those without a score last."""
        first = [(each.run, each) for each in self.versus.standings]
        places = {run for run, _ in first}
        return [*first, *((run, None) for run in range(len(self.runs)) if run not in places)]

    def score(self, standing: Standing | None) -> str:
        """Write a run's score."""
        if standing is None:
            return numbers.MISSING
        interval = numbers.ratio_interval(standing.score)
        return f"{numbers.ratio(standing.score.median)}{f' ({interval})' if interval else ''}"

    def divided(self, placement: Placement) -> str:
        """Return whose the CPUs of workers are."""
        return messages.divided(placement)

    def scaling_help(self) -> str:
        """Explain the table of workers."""
        return messages.SCALING_HELP


def page_of(
    versus: Versus,
    gate: Gate | None,
    version: str,
    figures: Mapping[str, Figure],
    stills: Mapping[str, Markup],
) -> ComparePage:
    """Make a comparison ready for templates."""
    return ComparePage(
        versus=versus, gate=gate, version=version, names=names_of(versus.runs), shown=shown_runs(versus),
        figures=figures, stills=stills,
    )  # fmt: skip


def names_of(runs: Sequence[Extract]) -> tuple[str, ...]:
    """Name each run as the user did, else by its machine where that tells it apart, else by its id."""
    machines = Counter(run.machine for run in runs)
    first = Counter(run.machine.partition(" · ")[0] for run in runs)
    found = []
    for run in runs:
        short = run.machine.partition(" · ")[0]
        machine = short if first[short] == 1 else run.machine
        found.append(machine if run.label == run.run_id and machines[run.machine] == 1 else run.label)
    return tuple(found)


def shown_runs(versus: Versus) -> tuple[int, ...]:
    """Choose the runs with a column of their own: all of a few, else outliers and one of each kind."""
    if len(versus.runs) <= SHOWN:
        return tuple(range(len(versus.runs)))
    if versus.reference is None:
        apart = (each.run for each in versus.results if each.outcome in (Outcome.SLOWER, Outcome.FASTER))
        first, taken = [run for run, _ in Counter(apart).most_common(_OUTLIERS)], ""
    else:
        first, taken = [versus.reference], versus.runs[versus.reference].machine
    latest = {trend.machine: trend.runs[-1] for trend in versus.trends}
    kinds = [
        latest.get(kind.machine, kind.runs[len(kind.runs) // 2])
        for kind in versus.kinds
        if kind.machine != taken or kind.machine in latest
    ]
    return tuple(dict.fromkeys((*first, *kinds)))[:SHOWN]


def device_in(versus: Versus, device: str) -> str:
    """Return a device's name; "GPU" where no run has another."""
    return device_of_row(device, list(dict.fromkeys(each.device for each in versus.results)))


def title_in(versus: Versus, workload: str) -> str:
    """Return a workload's title."""
    return next((run.titles[workload] for run in versus.runs if workload in run.titles), workload)


def limit_of(run: Extract, workload: str, device: str) -> str:
    """Return in a few words what limits a run's baseline, "" where it was not analysed."""
    pair = (workload, device)
    finding = next((each for each in run.findings if (each.workload, each.device) == pair), None)
    return limit(finding, step_time_of(run, workload, device, BASELINE)) if finding else ""


def step_time_of(run: Extract, workload: str, device: str, variant: str) -> StepTime | None:
    """Return a breakdown, None where there is none."""
    key = (workload, device, variant)
    return next((each for each in run.step_times if (each.workload, each.device, each.variant) == key), None)


def _blindness(result: Result) -> float:
    return float("inf") if result.detectable is None else result.detectable
