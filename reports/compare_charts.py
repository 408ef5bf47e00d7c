"""Figures of a comparison: step times beside each other, ratios of speed, and one machine through time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import altair as alt

from harness.model.comparison import Result, Trend, Versus
from reports import numbers
from reports.charts import Figure, Key, Table, labels_axis, layered, rows, stacked, title
from reports.compare_messages import MARKS, trend_line
from reports.compare_page import device_in, names_of, shown_runs, step_time_of, title_in
from reports.names import variant_name
from reports.palette import gpu_colour
from reports.scaling_charts import scaling_figures
from reports.step_time_chart import Bars, breakdown_figure
from workloads.protocol import BASELINE, TUNED

_LABELS_PX = 190
_TEXT_PX = 150
_ROW_PX = 22
_SHAPES = ("circle", "square", "triangle-up", "diamond")
_TREND_PX = 110
_BETWEEN_PX = 46  # an axis, and the next panel's title
_AXIS_PX = 52
# Runs with a row of their own in the chart of ratios; of more, a row has them all as dots.
_ROWS = 4


def figures_of(versus: Versus) -> Mapping[str, Figure]:
    """Build every figure that there is something for, by id."""
    scaling = scaling_figures(versus.scaling) if versus.scaling else ()
    built = (*scaling, _step_times(versus), _ratios(versus), _trends(versus))
    return {figure.id: figure for figure in built if figure is not None}


def _step_times(versus: Versus) -> Figure | None:
    """Draw a bar a run for each workload, device and variant, all of a panel on one axis."""
    names, panels = names_of(versus.runs), []
    for workload, device in dict.fromkeys((each.workload, each.device) for each in versus.results):
        for variant in (BASELINE, TUNED):
            times = {
                names[run]: time
                for run in shown_runs(versus)
                if (time := step_time_of(versus.runs[run], workload, device, variant)) is not None
            }
            heading = f"{title_in(versus, workload)}, {device_in(versus, device)}, {variant_name(variant)}"
            if len(times) > 1 or len(versus.runs) == 1:
                panels.append(Bars(heading=heading, rows=times, common=True))
    return breakdown_figure(
        panels,
        "A bar is as long as its step; milliseconds at its end",
        "A stacked bar a run for each workload, device and variant; its length is the time of a step, and the "
        "milliseconds stand at the end.",
        labels_px=_LABELS_PX,
    )


def _ratios(versus: Versus) -> Figure | None:
    compared = [each for each in versus.results if each.ratio is not None]
    if not compared:
        return None
    names, few = names_of(versus.runs), len(versus.runs) <= _ROWS
    series = list(
        dict.fromkeys(names[each.run] if few else versus.runs[each.run].machine for each in compared)
    )
    styles = {name: number for number, name in enumerate(series)}
    records = [_record(versus, each, names, styles, few=few) for each in compared]
    over = "the median of its kind of machine" if versus.reference is None else names[versus.reference]
    return Figure(
        id="figure-ratios",
        title=f"Speed over {over}",
        description="Dots on a logarithmic axis, with 95 % intervals where the runs are few; 1 is as fast.",
        spec=stacked([_ratio_panel(records, few=few)]),
        table=Table(
            header=("What", "Run", "Speed", "Ratio", "95 % interval", "All together", "Outcome"),
            rows=tuple(_cells(versus, each, names) for each in compared),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
        rank=1,
        legend=tuple(Key(colour=gpu_colour(style), shape="dot", name=name) for name, style in styles.items())
        if len(series) > 1
        else (),
    )


def _what(versus: Versus, each: Result | Trend) -> str:
    return f"{each.workload}, {device_in(versus, each.device)}, {variant_name(each.variant)}"


def _record(
    versus: Versus, each: Result, names: Sequence[str], styles: Mapping[str, int], *, few: bool
) -> dict[str, Any]:
    assert each.ratio is not None
    name = names[each.run] if few else versus.runs[each.run].machine
    text = f"{MARKS[each.outcome]} {numbers.ratio(each.ratio.median)}"
    return {
        "row": _what(versus, each),
        "run": names[each.run],
        "series": name,
        "value": each.ratio.median,
        "low": each.ratio.low if few else None,
        "high": each.ratio.high if few else None,
        "colour": gpu_colour(styles[name]),
        "shape": _SHAPES[styles[name] % len(_SHAPES)],
        "text": text,
        "interval": numbers.ratio_interval(each.ratio),
    }


def _cells(versus: Versus, each: Result, names: Sequence[str]) -> tuple[str, ...]:
    assert each.ratio is not None
    joint = f"{numbers.ratio(each.joint.low)} to {numbers.ratio(each.joint.high)}" if each.joint else ""
    return (
        _what(versus, each),
        names[each.run],
        numbers.speed(each.speed),
        numbers.ratio(each.ratio.median),
        numbers.ratio_interval(each.ratio),
        joint,
        each.outcome.value,
    )


def _ratio_panel(records: Sequence[dict[str, Any]], *, few: bool) -> alt.LayerChart:
    order = list(dict.fromkeys(record["row"] for record in records))
    series = len({record["series"] for record in records}) if few else 1
    ends = [
        value for record in records for value in (record["value"], record["low"], record["high"]) if value
    ]
    scale = alt.Scale(type="log", domain=[min([0.9, *ends]) / 1.05, max([1.1, *ends]) * 1.05], nice=False)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=5, format="~g"))
    y = alt.Y("row:N", sort=order, axis=labels_axis(_LABELS_PX))
    base = alt.Chart(rows(records)).encode(y=y)
    if series > 1:
        base = base.encode(yOffset=alt.YOffset("series:N", sort=None))
    tooltip = ["row:N", "run:N", "text:N", "interval:N"]
    layers = [
        alt.Chart(rows([{"value": 1.0}])).mark_rule(stroke="var(--ink-2)", strokeDash=[4, 3]).encode(x=x),
        base.mark_rule(stroke="var(--ink)", strokeWidth=1.5).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q"
        ),
        base.mark_point(filled=True, size=60, opacity=1 if few else 0.5).encode(
            x=x,
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            tooltip=tooltip,
        ),
    ]
    if few:
        layers.append(
            base.mark_text(align="left", baseline="middle", dx=8).encode(x=alt.value("width"), text="text:N")
        )
    return layered(*layers, row_px=8 + 14 * series)


def _trends(versus: Versus) -> Figure | None:
    """Draw each machine's speeds through time, a panel a workload and device."""
    groups: dict[tuple[str, str, str], list[Trend]] = {}
    for trend in versus.trends:
        groups.setdefault((trend.machine, trend.workload, trend.device), []).append(trend)
    if not groups:
        return None
    machines = {trend.machine for trend in versus.trends}
    results = {(each.run, each.workload, each.device, each.variant): each for each in versus.results}
    panels, cells = [], []
    for (machine, workload, device), own in groups.items():
        where = f" ({machine})" if len(machines) > 1 else ""
        heading = f"{title_in(versus, workload)}, {device_in(versus, device)}{where}{trend_line(own)}"
        records = [record for trend in own for record in _points(versus, trend, results)]
        panels.append(_trend_panel(heading, records))
        cells += [(heading, each["run"], each["when"], each["variant"], each["text"]) for each in records]
    return Figure(
        id="figure-trends",
        title="Speed through time, over the first run",
        description="Lines through the runs of one machine in the order of time, with 95 % intervals.",
        spec=stacked(panels, spacing=_BETWEEN_PX),
        table=Table(header=("What", "Run", "Time", "Variant", "Speed"), rows=tuple(cells)),
        reserve_px=_AXIS_PX + 10,
        rank=2,
        legend=tuple(
            Key(colour=gpu_colour(place), shape="line", name=variant_name(variant))
            for place, variant in enumerate((BASELINE, TUNED))
        ),
    )


def _points(
    versus: Versus, trend: Trend, results: Mapping[tuple[int, str, str, str], Result]
) -> Iterator[dict[str, Any]]:
    speeds = [results[run, trend.workload, trend.device, trend.variant].speed for run in trend.runs]
    for run, speed in zip(trend.runs, speeds, strict=True):
        first = speeds[0].median
        yield {
            "t": versus.runs[run].created,
            "when": numbers.when(versus.runs[run].created),
            "run": versus.runs[run].label,
            "variant": variant_name(trend.variant),
            "value": speed.median / first,
            "low": speed.low / first,
            "high": speed.high / first,
            "text": numbers.speed(speed),
            "colour": gpu_colour(0 if trend.variant == BASELINE else 1),
        }


def _trend_panel(heading: str, records: Sequence[dict[str, Any]]) -> alt.LayerChart:
    x = alt.X(
        "t:T",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(title=None, grid=False, tickCount=6, format=_date_format(records)),
    )
    axis = alt.Axis(title=None, minExtent=_AXIS_PX, maxExtent=_AXIS_PX, tickCount=4, format="%")
    scale = alt.Scale(zero=False)
    colour = alt.Color("colour:N", scale=None)
    tooltip = ["run:N", "when:N", "variant:N", "text:N"]
    base = alt.Chart(rows(records)).encode(x=x, color=colour, detail="variant:N")
    layers = [
        base.mark_line().encode(y=alt.Y("value:Q", scale=scale, axis=axis)),
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=40, opacity=1).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis), tooltip=tooltip
        ),
    ]
    return alt.LayerChart(layer=layers).properties(height=_TREND_PX, title=title(heading, _AXIS_PX))


def _date_format(records: Sequence[dict[str, Any]]) -> str:
    times = sorted(datetime.fromisoformat(record["t"]) for record in records)
    days = (times[-1] - times[0]).days
    return "%-d %b %H:%M" if days < 6 else "%-d %b" if days < 300 else "%b %Y"
