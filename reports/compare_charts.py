"""Figures of a comparison: step times, and ratios of many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from harness.model.analysis import Key, find_by_key
from harness.model.comparison import Outcome, Versus
from reports import charts, numbers
from reports.compare_messages import MARKS, device_in, reference_name, subject
from reports.names import variant_name
from reports.palette import gpu_colour
from reports.step_time_chart import breakdown_figure
from workloads.protocol import BASELINE, TUNED

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
    for each in versus.standings:
        kinds.setdefault(versus.runs[each.run].machine, each.run)
    outliers = (each.run for each in versus.results if each.outcome in (Outcome.SLOWER, Outcome.FASTER))
    often = (run for run, _ in Counter(outliers).most_common())
    return tuple(dict.fromkeys((*kinds.values(), *often)))[:COLUMNS]


def _heading(versus: Versus, workload: str, device: str) -> str:
    title = next((run.titles[workload] for run in versus.runs if workload in run.titles), workload)
    return f"{title}, {device_in(versus, device)}"


def _step_times(versus: Versus) -> charts.Figure | None:
    """Draw one bar per run for each workload, device and variant, with a common axis per panel."""
    panels = {}
    for workload, device in dict.fromkeys((each.workload, each.device) for each in versus.results):
        for variant in (BASELINE, TUNED):
            times = {
                versus.runs[run].label: time
                for run in shown_runs(versus)
                if (time := find_by_key(versus.runs[run].step_times, Key(workload, device, variant)))
            }
            if len(times) > 1 or (times and len(versus.runs) == 1):
                panels[f"{_heading(versus, workload, device)}, {variant_name(variant)}"] = times
    return breakdown_figure(panels, "Bar length is step time, in milliseconds at its end", common=True)


def _ratios(versus: Versus) -> charts.Figure | None:
    """Draw the ratios of more than COLUMNS runs, with one colour per kind of machine."""
    compared = [(each, each.ratio) for each in versus.results if each.ratio is not None]
    if not compared or len(versus.runs) <= COLUMNS:
        return None
    machines = list(dict.fromkeys(versus.runs[each.run].machine for each, _ in compared))
    colours = {machine: gpu_colour(index) for index, machine in enumerate(machines)}
    records = [
        {
            "row": subject(versus, each),
            "value": ratio.median,
            "name": f"{versus.runs[each.run].label} {MARKS[each.outcome]} {numbers.ratio_estimate(ratio)}",
            "text": "",
            "speed": numbers.speed(each.speed),
            "colour": colours[versus.runs[each.run].machine],
        }
        for each, ratio in compared
    ]
    keys = (charts.Key(colour=colour, shape="dot", name=name) for name, colour in colours.items())
    return charts.dot_plot(
        "figure-ratios",
        f"Speed over {reference_name(versus)}",
        {"": records},
        table={"What": "row", "Run, ratio with its 95 % interval": "name", "Speed": "speed"},
        around=1.1,
        legend=tuple(keys) if len(machines) > 1 else (),
    )
