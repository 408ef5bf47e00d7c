"""Figures of a comparison: step times, ratios of many runs, trends of one machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Key, find_by_key
from harness.model.comparison import Outcome, Trend, Versus
from reports import charts, numbers
from reports.compare_messages import MARKS, device_in, reference_name, subject, trend_line
from reports.names import variant_name
from reports.palette import gpu_colour
from reports.step_time_chart import breakdown_figure
from workloads.protocol import BASELINE, TUNED

# Maximum number of runs with their own column and bar. The chart of ratios shows all runs as dots.
COLUMNS = 4
# Columns for runs that differ from others on the same kind of machine.
_OUTLIERS = 2
_TREND_PX = 110
_AXIS_PX = 52


def figures_of(versus: Versus) -> Mapping[str, charts.Figure]:
    """Return id -> figure, without empty figures."""
    built = (_step_times(versus), _ratios(versus), _trends(versus))
    return {figure.id: figure for figure in built if figure is not None}


def shown_runs(versus: Versus) -> tuple[int, ...]:
    """Return the runs with their own column.

    These are all runs up to COLUMNS. Otherwise they are the reference (or outliers among machines of the same
    kind), then for each other kind of machine its fastest run, or the latest run of its trend.
    """
    if len(versus.runs) <= COLUMNS:
        return tuple(range(len(versus.runs)))
    kinds: dict[str, int] = {}
    for each in versus.standings:
        kinds.setdefault(versus.runs[each.run].machine, each.run)
    if versus.by_kind:
        outliers = (each.run for each in versus.results if each.outcome in (Outcome.SLOWER, Outcome.FASTER))
        first = [run for run, _ in Counter(outliers).most_common(_OUTLIERS)]
    else:
        first = [versus.reference]
        kinds.pop(versus.runs[versus.reference].machine, None)
    kinds |= {trend.machine: trend.runs[-1] for trend in versus.trends}
    return tuple(dict.fromkeys((*first, *kinds.values())))[:COLUMNS]


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


def _trends(versus: Versus) -> charts.Figure | None:
    """Draw the speeds of each machine over time, one panel per workload and device."""
    groups: dict[tuple[str, str, str], list[Trend]] = {}
    for trend in versus.trends:
        groups.setdefault((trend.machine, trend.workload, trend.device), []).append(trend)
    if not groups:
        return None
    several = len({trend.machine for trend in versus.trends}) > 1
    panels = {}
    for (machine, workload, device), group in groups.items():
        where = f" ({machine})" if several else ""
        heading = f"{_heading(versus, workload, device)}{where}{trend_line(group)}"
        panels[heading] = [record for trend in group for record in _points(versus, trend)]
    columns = {"What": "heading", "Run": "run", "Time": "when", "Variant": "variant", "Speed": "text"}
    return charts.Figure(
        id="figure-trends",
        title="Speed over time, relative to the first run",
        spec=charts.stacked([_trend_panel(*each) for each in panels.items()], labels_px=_AXIS_PX, spacing=46),
        table=charts.records_table(panels, columns),
        reserve_px=_AXIS_PX + 10,
        legend=tuple(
            charts.Key(colour=gpu_colour(index), shape="line", name=variant_name(variant))
            for index, variant in enumerate((BASELINE, TUNED))
        ),
    )


def _points(versus: Versus, trend: Trend) -> Iterator[dict[str, Any]]:
    speeds = {each.run: each.speed for each in versus.results if each.key == trend.key}
    first = speeds[trend.runs[0]].median
    for run in trend.runs:
        yield {
            "t": versus.runs[run].created,
            "when": numbers.when(versus.runs[run].created),
            "run": versus.runs[run].label,
            "variant": variant_name(trend.variant),
            **charts.span(speeds[run], 1 / first),
            "text": numbers.speed(speeds[run]),
            "colour": gpu_colour(0 if trend.variant == BASELINE else 1),
        }


def _trend_panel(heading: str, records: Sequence[dict[str, Any]]) -> charts.Panel:
    axis, scale = alt.Axis(title=None, grid=False, tickCount=6), alt.Scale(zero=False)
    base = alt.Chart(charts.rows(records)).encode(
        x=alt.X("t:T", scale=alt.Scale(type="utc"), axis=axis),
        y=alt.Y("value:Q", scale=scale, axis=charts.labels_axis(_AXIS_PX, tickCount=4, format="%")),
        color=charts.COLOUR,
        detail=alt.Detail("variant:N"),
    )
    dots = base.mark_point(filled=True, size=40, opacity=1)
    return charts.panel(
        base.mark_line(),
        base.mark_rule().encode(y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q")),
        dots.encode(tooltip=[alt.Tooltip(f"{name}:N") for name in ("run", "when", "variant", "text")]),
        heading=heading,
        height=_TREND_PX,
    )
