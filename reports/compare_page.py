"""Write a comparison of runs as an HTML page or as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.analysis.results_json import comparison_document
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
    """Return the comparison as one HTML page without external references.

    Args:
        versus: the comparison.
        gate: checks against a baseline, if requested.
        version: of tfbench.
        code: returns the JavaScript of the charts.
    """
    context = {"page": ComparePage(versus, gate, version)}
    figures, document = figures_of(versus), comparison_document(versus, gate)
    return framed("compare.html", context, figures, folder="compare", document=document, code=code)


def render_markdown(versus: Versus, *, gate: Gate | None = None) -> str:
    """Return the comparison as GitHub Markdown, short enough for a pull request."""
    template = environment(html=False).get_template("compare.md")
    return template.render(page=ComparePage(versus, gate)).strip() + "\n"


@dataclass(frozen=True)
class ComparePage:
    """A comparison with the values that templates use."""

    versus: Versus
    gate: Gate | None
    version: str = ""

    @property
    def runs(self) -> tuple[Extract, ...]:
        """The runs, in the given order."""
        return self.versus.runs

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """Positions of the runs with their own column."""
        return shown_runs(self.versus)

    @cached_property
    def results(self) -> Mapping[tuple[int, Key], Result]:
        """(Run, key) -> result."""
        return {(each.run, each.key): each for each in self.versus.results}

    def notes(self) -> list[str]:
        """Return notes about workers that share a machine and about incomplete runs."""
        scaling = self.versus.scaling
        shared = compare_messages.scaling_caveats(scaling.placements) if scaling else ()
        return [*shared, *compare_messages.notes(self.versus)]

    def rows(self) -> list[tuple[str, str]]:
        """Return the workloads and devices measured by any shown run."""
        shown = self.shown
        pairs = ((key.workload, key.device) for run, key in self.results if run in shown)
        return list(dict.fromkeys(pairs))

    def limit(self, run: int, workload: str, device: str) -> str:
        """Return what limits a run's baseline in a few words; "" if it was not analysed."""
        extract = self.runs[run]
        pair = (workload, device)
        finding = next((each for each in extract.findings if (each.workload, each.device) == pair), None)
        return limit(finding, find_by_key(extract.step_times, Key(*pair, BASELINE))) if finding else ""

    def differences(self, *, comparable: bool) -> list[tuple[str, ...]]:
        """Return ("section: field", values...) of the differences that are `comparable` or not."""
        return [
            (f"{each.section.value}: {each.field}", *self._values(each.values))
            for each in self.versus.differences
            if each.comparable is comparable
        ]

    def _values(self, values: Sequence[str]) -> list[str]:
        """Return one value per run, or for many runs one text with the runs of each value."""
        texts = [short_digests(value) for value in values]
        if len(self.runs) <= COLUMNS:
            return texts
        holders = {
            text: [run.label for run, value in zip(self.runs, texts, strict=True) if value == text]
            for text in texts
        }
        return ["; ".join(f"{text} ({some(names)})" for text, names in holders.items())]

    def caveats(self) -> list[tuple[str, list[str]]]:
        """Return the warnings of the shown runs, each with the labels of its runs."""
        result: dict[str, list[str]] = {}
        for run in self.shown:
            for text, _ in caveat_lines(self.runs[run].caveats, notes=False):
                result.setdefault(text, []).append(self.runs[run].label)
        return list(result.items())

    def costed(self) -> list[tuple[Extract, Speed]]:
        """Return the speeds with energy or cost."""
        return [
            (self.runs[run], speed)
            for run in self.shown
            for speed in self.runs[run].speeds
            if speed.energy_j_per_sample is not None or speed.cost_per_million is not None
        ]

    def ranked(self) -> list[tuple[int, Standing | None]]:
        """Return all runs, fastest first; runs without a score come last."""
        scored = [(each.run, each) for each in self.versus.standings]
        positions = {run for run, _ in scored}
        return [*scored, *((run, None) for run in range(len(self.runs)) if run not in positions)]
