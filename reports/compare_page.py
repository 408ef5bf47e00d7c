"""Write a comparison of runs as an HTML page or as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from harness.analysis.results_json import comparison_document
from harness.model.analysis import Key, find_by_key
from harness.model.comparison import Difference, Extract, Gate, Versus
from harness.wording import short_digests, some
from reports import compare_messages, compared_machines
from reports.compare_charts import COLUMNS, figures_of, shown_runs
from reports.frame import environment, framed
from reports.messages import caveat_lines, limit
from workloads.protocol import BASELINE


def render_html(versus: Versus, *, gate: Gate | None = None, code: str) -> str:
    """Return the comparison as one HTML page without external references.

    Args:
        versus: the comparison.
        gate: checks against a baseline, if requested.
        code: the JavaScript of the charts, from `charts_code`.
    """
    figures, document = figures_of(versus), comparison_document(versus, gate)
    return framed("compare", _context(versus, gate), figures, document=document, code=code)


def render_markdown(versus: Versus, *, gate: Gate | None = None) -> str:
    """Return the comparison as GitHub Markdown, short enough for a pull request."""
    return environment(html=False).get_template("compare.md").render(_context(versus, gate)).strip() + "\n"


def _context(versus: Versus, gate: Gate | None) -> dict[str, Any]:
    """Return the values that templates use besides filters."""
    shown = shown_runs(versus)
    columns = [versus.runs[run] for run in shown]
    results = {(each.run, each.key): each for each in versus.results}
    pairs = ((key.workload, key.device) for run, key in results if run in shown)
    scores = {each.run: each.score for each in versus.standings}
    return {
        "versus": versus,
        "gate": gate,
        "version": version("tfbench"),
        "runs": versus.runs,
        "shown": shown,
        "results": results,
        "rows": list(dict.fromkeys(pairs)),
        "limits": {(run, *where): text for run in shown for where, text in _limits(versus.runs[run])},
        "notes": [*compare_messages.notes(versus, gate), *compared_machines.notes(versus)],
        "machines": compared_machines.table(versus, shown),
        "differences": [_difference(versus, each) for each in versus.differences if each.comparable],
        "decisive": [_difference(versus, each) for each in versus.differences if not each.comparable],
        "caveats": _caveats(columns),
        "costed": [
            (run, speed)
            for run in columns
            for speed in run.speeds
            if speed.energy_j_per_sample is not None or speed.cost_per_million is not None
        ],
        "scores": scores,
        "ranked": [*scores, *(run for run in range(len(versus.runs)) if run not in scores)],
    }


def _limits(run: Extract) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what limits each workload and device."""
    for finding in run.findings:
        where = (finding.workload, finding.device)
        yield where, limit(finding, find_by_key(run.step_times, Key(*where, BASELINE)))


def _difference(versus: Versus, each: Difference) -> tuple[str, ...]:
    """Return a field and its value in each run, or for many runs one text with the runs of each value."""
    values = [short_digests(value) for value in each.values]
    if len(versus.runs) > COLUMNS:
        holders: dict[str, list[str]] = {}
        for run, value in zip(versus.runs, values, strict=True):
            holders.setdefault(value, []).append(run.label)
        values = ["; ".join(f"{value} ({some(labels)})" for value, labels in holders.items())]
    return (f"{each.section.value}: {each.field}", *values)


def _caveats(runs: Sequence[Extract]) -> list[tuple[str, list[str]]]:
    """Return the warnings of some runs, each with the labels of its runs."""
    result: dict[str, list[str]] = {}
    for run in runs:
        for text, _ in caveat_lines(run.caveats, notes=False):
            result.setdefault(text, []).append(run.label)
    return list(result.items())
