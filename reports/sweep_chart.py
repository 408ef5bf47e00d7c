"""A sweep's grid as a heat map, or as a line with intervals where a single parameter varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.analysis import Axis, Sweep, SweepPoint
from harness.model.run import Scalar, Status
from harness.rounding import point_words, scalar_word
from reports import numbers
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, is_gpu, variant_name

_CELL_PX = 46
_LINE_PX = 220
_BETWEEN_PX = 66  # an axis with its title, and the next panel's title
_LABELS_PX = 96
# Faint to strong; text on the strongest still reads in the light and in the dark.
_OPACITY = (0.05, 0.5)
_BEST, _TIED = "fastest", "may be as fast"
LOST = {
    None: "not measured yet",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.INTERRUPTED: "interrupted",
    Status.TIMEOUT: "timed out",
}


def sweep_figure(sweep: Sweep, title: str, number: int) -> Figure:
    """Draw one sweep.

    Args:
        title: what the workload is called.
        number: tells the figures of one page apart.
    """
    where = f"{title} on {device_name(sweep.device)}, {variant_name(sweep.variant)}"
    varied = sorted((axis for axis in sweep.axes if len(axis.values) > 1), key=_effect, reverse=True)
    if len(varied) < 2:
        axis = (varied or list(sweep.axes))[0]
        panels, words = [_line(sweep, axis)], "a line with 95 % intervals"
    else:
        panels, words = _maps(sweep, varied), "a map of cells, darker where faster"
    best = sweep.best
    return Figure(
        id=f"figure-sweep-{number}",
        title=f"{where}: samples per second",
        description=f"Speed over the values of {', '.join(axis.name for axis in sweep.axes)} as {words}. "
        + (f"The fastest point is {point_words(best.point)}." if best else "No point was measured."),
        spec=chart(panels, spacing=_BETWEEN_PX),
        table=Table(header=header(sweep), rows=tuple(row(sweep, one) for one in ranked(sweep))),
        reserve_px=_LABELS_PX + 4,
        rank=5,
        legend=_legend(sweep) if len(varied) > 1 else (),
    )


def ranked(sweep: Sweep) -> tuple[SweepPoint, ...]:
    """Give the points from the fastest to the slowest, then those without a speed."""
    return tuple(sorted(sweep.points, key=lambda one: -one.throughput.median if one.throughput else 1.0))


def header(sweep: Sweep) -> tuple[str, ...]:
    """Name the columns of `row`."""
    return (*(axis.name for axis in sweep.axes), "samples/s", "95 % interval", "over the fastest", "outcome")


def row(sweep: Sweep, one: SweepPoint) -> tuple[str, ...]:
    """Give a point as a table's row."""
    values = dict(one.point)
    return (
        *(scalar_word(values[axis.name]) for axis in sweep.axes),
        numbers.estimate(one.throughput) if one.throughput else "–",
        numbers.interval(one.throughput) if one.throughput else "–",
        numbers.factor(one.over_best.median) if one.over_best else "–",
        outcome(sweep, one),
    )


def outcome(sweep: Sweep, one: SweepPoint) -> str:
    """Say in a few words what became of a point."""
    if one.throughput is None:
        return LOST.get(one.status, "failed")
    if one is sweep.best or one == sweep.best:
        return _BEST
    return _TIED if one.tied else "" if one.tied is False else "cannot be told apart"


def _effect(axis: Axis) -> float:
    return axis.effect or 0.0


def _fill(sweep: Sweep) -> str:
    return "var(--gpu)" if is_gpu(sweep.device) else "var(--cpu)"


def _legend(sweep: Sweep) -> tuple[Key, ...]:
    keys = [Key(colour=_fill(sweep), shape="bar", name="speed: the fuller the faster, over all cells")]
    if sweep.best is not None:
        keys.append(Key(colour="var(--ink)", shape="frame", name=_BEST))
    if any(one.tied and one != sweep.best for one in sweep.points):
        keys.append(Key(colour="var(--ink)", shape="dashed", name=f"{_TIED} (95 % confidence)"))
    return tuple(keys)


def _maps(sweep: Sweep, varied: Sequence[Axis]) -> list[dict[str, Any]]:
    """Map the two axes with most effect; a third gives a panel for each of its values.

    Of more axes than three, a cell stands for the best point of all that share its values.
    """
    x, y = sorted(varied[:2], key=lambda axis: len(axis.values), reverse=True)
    if len(varied) == 3:
        third = varied[2]
        groups = [
            (
                f"{third.name} = {scalar_word(value)}",
                [one for one in sweep.points if (third.name, value) in one.point],
            )
            for value in third.values
        ]
    else:
        rest = ", ".join(axis.name for axis in varied[2:])
        groups = [(f"the best over {rest}" if rest else "", list(sweep.points))]
    return [_map(sweep, x, y, name, points) for name, points in groups]


def _map(sweep: Sweep, x: Axis, y: Axis, name: str, points: Sequence[SweepPoint]) -> dict[str, Any]:
    cells: dict[tuple[Scalar, Scalar], SweepPoint] = {}
    for one in points:
        values = dict(one.point)
        held = cells.setdefault((values[x.name], values[y.name]), one)
        if _speed(one) > _speed(held):
            cells[values[x.name], values[y.name]] = one
    top = max((_speed(one) for one in sweep.points), default=0.0) or 1.0
    data = [_cell(sweep, one, x, y, top) for one in cells.values()]
    across = {
        "field": "x", "type": "ordinal", "sort": None, "title": x.name,
        "scale": {"paddingInner": 0.04, "paddingOuter": 0.02}, "axis": {"labelAngle": 0, "ticks": False},
    }  # fmt: skip
    labels = {"minExtent": _LABELS_PX, "maxExtent": _LABELS_PX, "labelLimit": _LABELS_PX - 30, "ticks": False}
    down = {
        "field": "y", "type": "ordinal", "sort": None, "title": y.name,
        "scale": {"paddingInner": 0.08, "paddingOuter": 0.04}, "axis": labels,
    }  # fmt: skip
    place = {"x": across, "y": down, "tooltip": _tooltip()}
    frame = {"type": "rect", "filled": False, "stroke": "var(--ink)", "strokeWidth": 2}
    layers = [
        {
            "mark": {"type": "rect", "fill": _fill(sweep)},
            "encoding": {**place, "fillOpacity": {"field": "opacity", "type": "quantitative", "scale": None}},
        },
        {"mark": frame, "transform": [{"filter": f"datum.outcome == '{_BEST}'"}], "encoding": place},
        {
            "mark": {**frame, "strokeWidth": 1.5, "strokeDash": [4, 3]},
            "transform": [{"filter": f"datum.outcome == '{_TIED}'"}],
            "encoding": place,
        },
        {
            "mark": {"type": "text", "fill": "var(--ink)", "fontSize": 12},
            "encoding": {**place, "text": {"field": "text"}},
        },
    ]
    panel: dict[str, Any] = {"data": {"values": data}, "height": {"step": _CELL_PX}, "layer": layers}
    return {"title": {"text": name, "dx": -_LABELS_PX}, **panel} if name else panel


def _cell(sweep: Sweep, one: SweepPoint, x: Axis, y: Axis, top: float) -> dict[str, Any]:
    values = dict(one.point)
    faint, full = _OPACITY
    return {
        "x": scalar_word(values[x.name]),
        "y": scalar_word(values[y.name]),
        "opacity": faint + (full - faint) * _speed(one) / top if one.throughput else 0.0,
        "text": numbers.estimate(one.throughput) if one.throughput else outcome(sweep, one),
        **_told(sweep, one),
    }


def _line(sweep: Sweep, axis: Axis) -> dict[str, Any]:
    data = []
    for one in sweep.points:
        whiskers = one.throughput is not None and one.throughput.n > 1
        data.append(
            {
                "x": scalar_word(dict(one.point)[axis.name]),
                "value": one.throughput.median if one.throughput else 0.0,
                "low": one.throughput.low if one.throughput and whiskers else None,
                "high": one.throughput.high if one.throughput and whiskers else None,
                "done": one.throughput is not None,
                "text": numbers.estimate(one.throughput) if one.throughput else outcome(sweep, one),
                **_told(sweep, one),
            }
        )
    x = {
        "field": "x", "type": "ordinal", "sort": None, "title": axis.name,
        "axis": {"labelAngle": 0, "grid": False}, "scale": {"type": "point", "padding": 0.6},
    }  # fmt: skip
    y = {
        "field": "value", "type": "quantitative", "title": "samples/s", "scale": {"zero": True},
        "axis": {"minExtent": _LABELS_PX, "maxExtent": _LABELS_PX, "tickCount": 5, "format": "~s"},
    }  # fmt: skip
    fill, done = _fill(sweep), [{"filter": "datum.done"}]
    line = {"type": "line", "stroke": fill, "strokeWidth": 1.5}
    text = {"type": "text", "fill": "var(--ink)", "dy": -12, "align": "center"}
    return {
        "data": {"values": data},
        "height": _LINE_PX,
        "layer": [
            {"mark": line, "transform": done, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "rule", "stroke": "var(--ink)", "strokeWidth": 1.5},
                "transform": [{"filter": "isValid(datum.low)"}],
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "fill": fill},
                "transform": done,
                "encoding": {"x": x, "y": y, "tooltip": _tooltip()},
            },
            {"mark": text, "encoding": {"x": x, "y": {**y, "field": "value"}, "text": {"field": "text"}}},
        ],
    }  # fmt: skip


def _told(sweep: Sweep, one: SweepPoint) -> Mapping[str, str]:
    return {
        "point": point_words(one.point),
        "speed": numbers.estimate(one.throughput) if one.throughput else "–",
        "interval": numbers.interval(one.throughput) if one.throughput else "–",
        "outcome": outcome(sweep, one),
    }


def _tooltip() -> list[dict[str, str]]:
    return [
        {"field": field, "title": title, "type": "nominal"}
        for field, title in (
            ("point", "point"), ("speed", "samples/s"), ("interval", "95 % interval"), ("outcome", "outcome"),
        )
    ]  # fmt: skip


def _speed(one: SweepPoint) -> float:
    return one.throughput.median if one.throughput else 0.0
