"""A comparison of runs: what its templates see, as one HTML page or as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.analysis.results import comparison_document
from harness.model.analysis import Key, find_by_key
from harness.model.comparison import Extract, Gate, Result, Speed, Standing, Versus
from harness.wording import short_digests, some
from reports import compare_messages
from reports.compare_charts import COLUMNS, figures_of, shown_runs
from reports.frame import charts_code, environment, framed
from reports.messages import caveat_lines, limit
from workloads.protocol import BASELINE


def render_html(
    versus: Versus, *, gate: Gate | None = None, version: str = "", code: Callable[[], str] = charts_code
) -> str:
    """Write the comparison as one HTML page without any external reference.

    Args:
        versus: what to show.
        gate: checks against a baseline, where one was asked for.
        version: of this program.
        code: gives the charts' JavaScript.
    """
    page, document = ComparePage(versus, gate, version), comparison_document(versus, gate)
    figures = figures_of(versus)
    return framed("compare.html", page, figures, folder="compare", document=document, code=code)


def render_markdown(versus: Versus, *, gate: Gate | None = None) -> str:
    """Write the comparison in GitHub's Markdown, short enough for a pull request."""
    template = environment(html=False).get_template("compare.md")
    return template.render(page=ComparePage(versus, gate)).strip() + "\n"


@dataclass(frozen=True)
class ComparePage:
    """A comparison, and what templates ask of it."""

    versus: Versus
    gate: Gate | None
    version: str = ""

    @property
    def runs(self) -> tuple[Extract, ...]:
        """In the order in which they were given."""
        return self.versus.runs

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """Positions of the runs with a column of their own."""
        return shown_runs(self.versus)

    @cached_property
    def results(self) -> Mapping[tuple[int, Key], Result]:
        """By run and what they are about."""
        return {(each.run, each.key): each for each in self.versus.results}

    def notes(self) -> list[str]:
        """Return what is to be known beside it: incomplete runs, workers that share a machine."""
        scaling = self.versus.scaling
        together = compare_messages.scaling_caveats(scaling.placements) if scaling else ()
        return [*together, *compare_messages.notes(self.versus)]

    def rows(self) -> list[tuple[str, str]]:
        """Return the workloads and devices that a shown run measured."""
        shown = self.shown
        pairs = ((key.workload, key.device) for run, key in self.results if run in shown)
        return list(dict.fromkeys(pairs))

    def limit(self, run: int, workload: str, device: str) -> str:
        """Return in a few words what limits a run's baseline, "" where it was not analysed."""
        own = self.runs[run]
        pair = (workload, device)
        finding = next((each for each in own.findings if (each.workload, each.device) == pair), None)
        return limit(finding, find_by_key(own.step_times, Key(*pair, BASELINE))) if finding else ""

    def differences(self, *, comparable: bool) -> list[tuple[str, ...]]:
        """Return "section: field" and its values, one a column, of those with which speeds stay comparable or not."""
        return [
            (f"{each.section.value}: {each.field}", *self._values(each.values))
            for each in self.versus.differences
            if each.comparable is comparable
        ]

    def _values(self, values: Sequence[str]) -> list[str]:
        """Return a value a run, or where they are many one text with the runs of each value."""
        texts = [short_digests(value) for value in values]
        if len(self.runs) <= COLUMNS:
            return texts
        holders = {
            text: [run.label for run, own in zip(self.runs, texts, strict=True) if own == text]
            for text in texts
        }
        return ["; ".join(f"{text} ({some(names)})" for text, names in holders.items())]

    def caveats(self) -> list[tuple[str, list[str]]]:
        """Return the warnings of the shown runs' own reports, each with the runs that have it."""
        result: dict[str, list[str]] = {}
        for run in self.shown:
            for text, _ in caveat_lines(self.runs[run].caveats, notes=False):
                result.setdefault(text, []).append(self.runs[run].label)
        return list(result.items())

    def costed(self) -> list[tuple[Extract, Speed]]:
        """Return the speeds with an energy reading or a price."""
        return [
            (self.runs[run], speed)
            for run in self.shown
            for speed in self.runs[run].speeds
            if speed.energy_j_per_sample is not None or speed.cost_per_million is not None
        ]

    def ranked(self) -> list[tuple[int, Standing | None]]:
        """Return all runs, the fastest first and those without a score last."""
        first = [(each.run, each) for each in self.versus.standings]
        places = {run for run, _ in first}
        return [*first, *((run, None) for run in range(len(self.runs)) if run not in places)]
