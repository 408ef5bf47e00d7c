"""Figures of a history: speed through time, a figure a kind of machine, a panel a trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

from harness.model.history import History, Point, Trend
from harness.model.variants import variant_name
from harness.rounding import counted
from reports import numbers
from reports.bars import panel_title
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name

_LEAST = 2  # points that make a trend worth drawing
_PANELS = 8  # in a figure, those with changes first; all are in the tables
_HEIGHT_PX = 90
_ROOM_PX = 64
_COLOURS = 8
_DAY_MS = 86_400_000.0
_TICKS_MS = tuple(
    _DAY_MS * days for days in (1 / 144, 1 / 24, 1 / 4, 1, 2, 7, 14, 30, 91, 182, 365, 730, 1825)
)
_MOST_TICKS = 7
_MOST_RULES = 80  # runs above this are drawn without their own intervals


def figures_of(history: History) -> Mapping[str, Figure]:
    """Build a figure for each kind of machine that has a trend, by id."""
    machines: dict[str, list[Trend]] = {}
    for trend in history.trends:
        if len(trend.points) >= _LEAST:
            machines.setdefault(trend.machine, []).append(trend)
    colours = _image_colours(history)
    found = {}
    for number, (machine, trends) in enumerate(machines.items(), 1):
        figure = _figure(history, number, machine, trends, colours)
        found[figure.id] = figure
    return found


def trend_name(trend: Trend) -> str:
    """Name a trend within its machine."""
    return f"{trend.workload}, {device_name(trend.device)} {variant_name(trend.variant)}"


def _image_colours(history: History) -> dict[str, str]:
    images = dict.fromkeys(point.image for trend in history.trends for point in trend.points)
    return {image: f"var(--gpu-{min(number, _COLOURS - 1)})" for number, image in enumerate(images)}


def _figure(
    history: History, number: int, machine: str, trends: Sequence[Trend], colours: Mapping[str, str]
) -> Figure:
    shown = sorted(trends, key=lambda one: (not one.changes, -len(one.points)))[:_PANELS]
    used = dict.fromkeys(point.image for trend in shown for point in trend.points)
    left = len(trends) - len(shown)
    moments = [_moment(point.created) for trend in shown for point in trend.points]
    span = (min(moments), max(moments))
    panels = [_panel(history, trend, colours, span, labels=trend is shown[-1]) for trend in shown]
    return Figure(
        id=f"figure-trend-{number}",
        title=f"{machine}: samples per second through time",
        description="Points are runs, coloured by the image that they ran in, with 95 % intervals; lines are "
        "levels, and upright strokes mark where a level changed for good."
        + (f" {counted(left, 'more trend')} {'is' if left == 1 else 'are'} in the tables." if left else ""),
        spec=chart(panels, spacing=34),
        table=Table(
            header=("Run", "Made", "What", "Setting", "samples/s", "95 % interval", "Image"),
            rows=tuple(
                (history.runs[point.run].label, numbers.when(point.created), trend_name(trend), trend.setting,
                 numbers.estimate(point.speed), numbers.interval(point.speed), point.image or "not known")
                for trend in shown for point in trend.points
            ),
        ),
        reserve_px=_ROOM_PX + 6,
        rank=number,
        legend=tuple(
            Key(colour=colours[image], shape="bar", name=f"image {image or 'not known'}") for image in used
        ),
    )  # fmt: skip


def _panel(
    history: History, trend: Trend, colours: Mapping[str, str], span: Sequence[float], *, labels: bool
) -> dict[str, Any]:
    """Draw one trend; all of a figure have one time axis, and the last one its labels."""
    values, shape = _ticks(*span)
    x = {
        "field": "t", "type": "quantitative", "title": None,
        "scale": {"domain": list(span), "padding": 6, "zero": False, "nice": False},
        "axis": {
            "grid": False, "values": values, "labelOverlap": True, "labels": labels,
            "labelExpr": f"utcFormat(datum.value, '{shape}')",
        },
    }  # fmt: skip
    y = {
        "field": "v", "type": "quantitative", "title": None, "scale": {"zero": False, "nice": True},
        "axis": {"tickCount": 4, "minExtent": _ROOM_PX, "maxExtent": _ROOM_PX, "format": "~s"},
    }  # fmt: skip
    rows = [_row(history, point, colours) for point in trend.points]
    fill = {"field": "colour", "type": "nominal", "scale": None}
    tooltip = [
        {"field": name, "title": title, "type": "nominal"}
        for name, title in (
            ("run", "run"), ("when", "made"), ("text", "samples/s"), ("interval", "95 % interval"),
            ("image", "image"),
        )
    ]  # fmt: skip
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": _levels(trend)},
            "mark": {"type": "rule", "stroke": "var(--ink-2)", "strokeWidth": 1.2},
            "encoding": {"x": x, "x2": {"field": "end"}, "y": y},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
            "encoding": {"x": x, "y": y, "fill": fill, "tooltip": tooltip},
        },
    ]
    if len(rows) <= _MOST_RULES:
        layers.insert(1, {
            "data": {"values": [row for row in rows if row["low"] is not None]},
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"},
                         "stroke": {"field": "colour", "type": "nominal", "scale": None}},
        })  # fmt: skip
    if trend.changes:
        marks = [
            {"t": _moment(trend.points[one.at].created), "text": numbers.ratio_estimate(one.ratio),
             "along": "; ".join(one.along) or "nothing that is recorded"}
            for one in trend.changes
        ]  # fmt: skip
        layers.append({
            "data": {"values": marks},
            "mark": {"type": "rule", "stroke": "var(--alert)", "strokeWidth": 2, "strokeDash": [5, 3]},
            "encoding": {"x": x, "tooltip": [
                {"field": "text", "title": "level after over before", "type": "nominal"},
                {"field": "along", "title": "changed with it", "type": "nominal"},
            ]},
        })  # fmt: skip
    title = f"{trend_name(trend)} ({trend.setting})" if trend.setting else trend_name(trend)
    return {"title": panel_title(title, _ROOM_PX), "height": _HEIGHT_PX, "layer": layers}


def _row(history: History, point: Point, colours: Mapping[str, str]) -> dict[str, Any]:
    whiskers = numbers.has_interval(point.speed)
    return {
        "t": _moment(point.created),
        "v": point.speed.median,
        "low": point.speed.low if whiskers else None,
        "high": point.speed.high if whiskers else None,
        "colour": colours[point.image],
        "run": history.runs[point.run].label,
        "when": numbers.when(point.created),
        "text": numbers.estimate(point.speed),
        "interval": numbers.interval(point.speed),
        "image": point.image or "not known",
    }


def _ticks(first: float, last: float) -> tuple[list[float], str]:
    """Return where a time axis has its labels, at whole hours or days, and how they are written.

    Vega's own time scales take one domain in several layers for a conflict, so that time is a number here.
    """
    step = next((one for one in _TICKS_MS if (last - first) / one <= _MOST_TICKS), _TICKS_MS[-1])
    start = -(-first // step) * step
    values = [start + step * number for number in range(int((last - start) // step) + 1)]
    shape = "%-d %b %H:%M" if step < _DAY_MS else "%-d %b %Y" if step > 28 * _DAY_MS else "%-d %b"
    return values or [first], shape


def _moment(created: str) -> float:
    """Return milliseconds since 1970, as Vega counts; what is no time at all comes first."""
    try:
        return datetime.fromisoformat(created).timestamp() * 1000
    except ValueError:
        return 0.0


def _levels(trend: Trend) -> list[dict[str, Any]]:
    """Give each level's median over its runs, from its first run to its last."""
    ends = [0, *(one.at for one in trend.changes), len(trend.points)]
    found = []
    for start, end in pairwise(ends):
        own = trend.points[start:end]
        middle = median(point.speed.median for point in own)
        found.append({"t": _moment(own[0].created), "end": _moment(own[-1].created), "v": middle})
    return found
