"""Write a comparison of runs as an HTML page, with its charts, or as Markdown for a pull request."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import geometric_mean, median
from typing import Any

from harness.model.analysis import Key
from harness.model.comparison import Difference, Extract, Gate, Outcome, Versus
from harness.wording import short_digests, some
from reports import charts, compare_messages, machine, numbers
from reports.compare_messages import MARKS, device_in, reference_name, subject
from reports.exports import comparison_document
from reports.frame import environment, framed
from reports.messages import caveat_lines, limit
from reports.step_time_charts import breakdown_figure
from reports.text import device_name
from workloads.protocol import COPIES, PRECISIONS
from workloads.variants import BASELINE, TUNED, variant_name

# Speeds within this much of what the machines can do are explained by that.
EXPLAINED = 0.08


def render_html(versus: Versus, *, gate: Gate | None = None, code: str) -> str:
    """Return the comparison as one HTML page without external references."""
    figures, document = figures_of(versus), comparison_document(versus, gate)
    return framed("compare", _context(versus, gate), figures, document=document, code=code)


def render_markdown(versus: Versus, *, gate: Gate | None = None) -> str:
    """Return the comparison as GitHub Markdown, short enough for a pull request."""
    return environment(html=False).get_template("compare.md").render(_context(versus, gate)).strip() + "\n"


def _context(versus: Versus, gate: Gate | None) -> dict[str, Any]:
    """Return the values that templates use in addition to filters."""
    shown = shown_runs(versus)
    columns = [versus.runs[run] for run in shown]
    results = {(result.run, result.key): result for result in versus.results}
    pairs = ((key.workload, key.device) for run, key in results if run in shown)
    scores = {standing.run: standing.score for standing in versus.standings}
    return {
        "versus": versus,
        "gate": gate,
        "version": version("tfbench"),
        "runs": versus.runs,
        "shown": shown,
        "results": results,
        "rows": list(dict.fromkeys(pairs)),
        "limits": {(run, *where): text for run in shown for where, text in _limits(versus.runs[run]).items()},
        "notes": [*compare_messages.notes(versus, gate), *machine_notes(versus)],
        "labels": [run.label for run in columns],
        "machines": machine_rows(versus, shown),
        "differences": [
            _difference(versus, difference) for difference in versus.differences if difference.comparable
        ],
        "decisive": [
            _difference(versus, difference) for difference in versus.differences if not difference.comparable
        ],
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


def _limits(run: Extract) -> Mapping[tuple[str, str], str]:
    """Return what limits each workload and device, beside the baseline's step if it was measured."""
    result: dict[tuple[str, str], str] = {}
    for speed in run.speeds:
        if speed.finding is not None:
            result.setdefault((speed.workload, speed.device), limit(speed.finding, speed.breakdown))
    return result


def _difference(versus: Versus, difference: Difference) -> tuple[str, ...]:
    """Return a field and its value in each run, or for many runs one text with the runs of each value."""
    values = [short_digests(value) for value in difference.values]
    if len(versus.runs) > COLUMNS:
        holders: dict[str, list[str]] = {}
        for run, value in zip(versus.runs, values, strict=True):
            holders.setdefault(value, []).append(run.label)
        values = ["; ".join(f"{value} ({some(labels)})" for value, labels in holders.items())]
    return (f"{difference.section.value}: {difference.field}", *values)


def _caveats(runs: Sequence[Extract]) -> list[tuple[str, list[str]]]:
    """Return the warnings of some runs, each with the labels of its runs."""
    result: dict[str, list[str]] = {}
    for run in runs:
        texts = [text for text, _ in caveat_lines(run.caveats, notes=False)]
        texts += [
            f"{machine.checked_device(item.device)}, {item.check}: {machine.health_text(item)}."
            for item in run.health
        ]
        for text in texts:
            result.setdefault(text, []).append(run.label)
    return list(result.items())


# Maximum number of runs with their own column and bar. The chart of ratios shows all runs as dots.
COLUMNS = 4


def figures_of(versus: Versus) -> Mapping[str, charts.Figure]:
    """Return id -> figure, without empty figures."""
    built = (_step_times(versus), _ratios(versus))
    return {figure.id: figure for figure in built if figure is not None}


def shown_runs(versus: Versus) -> tuple[int, ...]:
    """Return the runs with their own column.

    These are all runs up to COLUMNS. Otherwise they are the reference, the fastest run of each other kind of
    machine, and those that differ most often from the reference.
    """
    if len(versus.runs) <= COLUMNS:
        return tuple(range(len(versus.runs)))
    kinds = {versus.runs[versus.reference].machine: versus.reference}
    for standing in versus.standings:
        kinds.setdefault(versus.runs[standing.run].machine, standing.run)
    outliers = (result.run for result in versus.results if result.outcome in (Outcome.SLOWER, Outcome.FASTER))
    often = (run for run, _ in Counter(outliers).most_common())
    return tuple(dict.fromkeys((*kinds.values(), *often)))[:COLUMNS]


def _heading(versus: Versus, workload: str, device: str) -> str:
    title = next((run.titles[workload] for run in versus.runs if workload in run.titles), workload)
    return f"{title}, {device_in(versus, device)}"


def _step_times(versus: Versus) -> charts.Figure | None:
    """Draw one bar per run for each workload, device and variant, with a common axis per panel."""
    panels = {}
    runs = [versus.runs[run] for run in shown_runs(versus)]
    for workload, device in dict.fromkeys((result.workload, result.device) for result in versus.results):
        for variant in (BASELINE, TUNED):
            key = Key(workload, device, variant)
            times = {
                run.label: speed.breakdown
                for run in runs
                for speed in run.speeds
                if speed.key == key and speed.breakdown
            }
            if len(times) > 1 or (times and len(versus.runs) == 1):
                panels[f"{_heading(versus, workload, device)}, {variant_name(variant)}"] = times
    return breakdown_figure(panels, "Bar length is step time, in milliseconds at its end", common=True)


def _ratios(versus: Versus) -> charts.Figure | None:
    """Draw the ratios of more than COLUMNS runs, with one colour per kind of machine."""
    compared = [(result, result.ratio) for result in versus.results if result.ratio is not None]
    if not compared or len(versus.runs) <= COLUMNS:
        return None
    machines = list(dict.fromkeys(versus.runs[result.run].machine for result, _ in compared))
    colours = {machine: charts.gpu_colour(index) for index, machine in enumerate(machines)}
    records = [
        {
            "row": subject(versus, result),
            "value": ratio.median,
            "name": f"{versus.runs[result.run].label} {MARKS[result.outcome]} {numbers.ratio_estimate(ratio)}",
            "text": "",
            "speed": numbers.speed(result.speed),
            "colour": colours[versus.runs[result.run].machine],
        }
        for result, ratio in compared
    ]
    keys = (charts.LegendKey(colour=colour, shape="dot", name=name) for name, colour in colours.items())
    return charts.dot_plot(
        "figure-ratios",
        f"Speed over {reference_name(versus)}",
        {"": records},
        table={"What": "row", "Run, ratio with its 95 % interval": "name", "Speed": "speed"},
        around=1.1,
        legend=tuple(keys) if len(machines) > 1 else (),
    )


# Others depend on the disk, or are a matter of a part of a workload.
_COMPARED = (*PRECISIONS, "memory", *COPIES, "launch", "jpeg")


def machine_rows(versus: Versus, shown: Sequence[int]) -> list[tuple[str, ...]]:
    """Return a row per device and capability: its name, and its value in each run with the ratio to the reference."""
    values = [_capabilities_of(versus.runs[run]) for run in shown]
    reference = _capabilities_of(versus.runs[versus.reference])
    rows = []
    for device, name in dict.fromkeys(key for value in values for key in value):
        cells = []
        for run, own in zip(shown, values, strict=True):
            found, base = own.get((device, name)), reference.get((device, name))
            text = numbers.rate(*found) if found else numbers.MISSING
            if found and base and run != versus.reference:
                text += f" ({numbers.ratio(found[0] / base[0])})"
            cells.append(text)
        rows.append((f"{device_name(device)} {machine.capability_name(name)}", *cells))
    return rows


def machine_notes(versus: Versus) -> Iterator[str]:
    """Yield for each run and device how its host, its machine and its speeds compare with the reference's."""
    reference = _capabilities_of(versus.runs[versus.reference])
    for number, run in enumerate(versus.runs):
        if number == versus.reference:
            continue
        if note := _host_note(versus, run):
            yield note
        own = _capabilities_of(run)
        for device in dict.fromkeys(device for device, _ in own):
            ratios = [own[key][0] / reference[key][0] for key in own if key[0] == device and key in reference]
            speeds = [
                result.ratio.median
                for result in versus.results
                if (result.run, result.device) == (number, device) and result.ratio
            ]
            if ratios:
                yield _machine_note(versus, run, device, geometric_mean(ratios), speeds)


def _host_note(versus: Versus, run: Extract) -> str:
    """Return that one machine was not in the same state during two runs, "" if it was or if these are two machines."""
    reference = versus.runs[versus.reference]
    names = {name for name in run.probe if run.probe[name] > 0 and reference.probe.get(name, 0.0) > 0}
    if run.machine != reference.machine or not names:
        return ""
    rate = geometric_mean(run.probe[name] / reference.probe[name] for name in names)
    if abs(math.log(rate)) <= EXPLAINED:
        return ""
    return (
        f"{run.label}: a short probe of the host's CPUs between its trials ran at {numbers.ratio(rate)} the rate of "
        f"{reference.label} although the machines are alike. Neighbours or clocks differed; repeat both runs in turn."
    )


def _machine_note(versus: Versus, run: Extract, device: str, able: float, speeds: Sequence[float]) -> str:
    label = versus.runs[versus.reference].label
    text = f"{run.label}, {device_name(device)}: the machine is {numbers.ratio(able)} {label}"
    if not speeds:
        return f"{text}."
    measured = median(speeds)
    if abs(math.log(measured / able)) <= EXPLAINED:
        return f"{text}, which explains its speeds, {numbers.ratio(measured)} in the median."
    return f"{text}; its speeds, {numbers.ratio(measured)} in the median, have other causes."


def _capabilities_of(run: Extract) -> Mapping[tuple[str, str], tuple[float, str]]:
    return {
        (capability.device, capability.name): (capability.value.median, capability.value.unit)
        for capability in run.capabilities
        if capability.name in _COMPARED
    }
