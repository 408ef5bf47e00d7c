"""A sweep's grid as a heat map, or as a line with intervals where a single parameter varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Axis, Sweep, SweepPoint
from harness.model.run import Scalar, Status
from harness.rounding import point_words, scalar_word
from reports import numbers
from reports.charts import Figure, Key, Panel, Table, device_colour, labels_axis, panel, rows, stacked
from reports.names import device_name, variant_name

_CELL_PX = 46
_LINE_PX = 220
_BETWEEN_PX = 66  # an axis with its title, and the next panel's title
_LABELS_PX = 96
# Faint to strong; text on the strongest still reads in the light and in the dark.
_OPACITY = (0.05, 0.5)
_BEST, _TIED = "fastest", "may be as fast"
_LOST = {
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
        spec=stacked(panels, spacing=_BETWEEN_PX),
        table=sweep_table(sweep),
        reserve_px=_LABELS_PX + 4,
        legend=_legend(sweep) if len(varied) > 1 else (),
    )


def sweep_table(sweep: Sweep) -> Table:
    """Return the points from the fastest to the slowest, then those without a speed."""
    ranked = sorted(sweep.points, key=lambda one: -one.throughput.median if one.throughput else 1.0)
    names = tuple(axis.name for axis in sweep.axes)
    return Table(
        header=(*names, "speed", "95 % interval", "over the fastest", "outcome"),
        rows=tuple(
            (
                *(scalar_word(dict(one.point)[name]) for name in names),
                numbers.speed(one.throughput),
                numbers.interval(one.throughput),
                numbers.factor(one.over_best.median) if one.over_best else numbers.MISSING,
                ": ".join(filter(None, (_outcome(sweep, one), one.message))),
            )
            for one in ranked
        ),
    )


def _outcome(sweep: Sweep, one: SweepPoint) -> str:
    """Say in a few words what became of a point."""
    if one.throughput is None:
        return _LOST.get(one.status, "failed")
    if one == sweep.best:
        return _BEST
    return _TIED if one.tied else "" if one.tied is False else "cannot be told apart"


def _effect(axis: Axis) -> float:
    return axis.effect or 0.0


def _legend(sweep: Sweep) -> tuple[Key, ...]:
    keys = [
        Key(
            colour=device_colour(sweep.device),
            shape="bar",
            name="speed: the fuller the faster, over all cells",
        )
    ]
    if sweep.best is not None:
        keys.append(Key(colour="var(--ink)", shape="frame", name=_BEST))
    if any(one.tied and one != sweep.best for one in sweep.points):
        keys.append(Key(colour="var(--ink)", shape="dashed", name=f"{_TIED} (95 % confidence)"))
    return tuple(keys)


def _maps(sweep: Sweep, varied: Sequence[Axis]) -> list[Panel]:
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


def _map(sweep: Sweep, x: Axis, y: Axis, name: str, points: Sequence[SweepPoint]) -> Panel:
    cells: dict[tuple[Scalar, Scalar], SweepPoint] = {}
    for one in points:
        values = dict(one.point)
        held = cells.setdefault((values[x.name], values[y.name]), one)
        if _speed(one) > _speed(held):
            cells[values[x.name], values[y.name]] = one
    top = max((_speed(one) for one in sweep.points), default=0.0) or 1.0
    faint, full = _OPACITY
    records = [
        {
            **_record(sweep, one, x),
            "y": scalar_word(dict(one.point)[y.name]),
            "opacity": faint + (full - faint) * _speed(one) / top if one.throughput else 0.0,
        }
        for one in cells.values()
    ]
    gap = alt.Scale(paddingInner=0.06, paddingOuter=0.03)
    across = alt.X("x:O", sort=None, scale=gap, axis=alt.Axis(title=x.name, labelAngle=0, ticks=False))
    down = alt.Y(
        "y:O", sort=None, scale=gap, axis=labels_axis(_LABELS_PX, title=y.name, labelLimit=_LABELS_PX - 30)
    )
    base = alt.Chart(rows(records)).encode(x=across, y=down, tooltip=_TOOLTIP)
    frame = base.mark_rect(filled=False, stroke="var(--ink)", strokeWidth=2)
    dashed = base.mark_rect(filled=False, stroke="var(--ink)", strokeWidth=1.5, strokeDash=[4, 3])
    return panel(
        base.mark_rect(fill=device_colour(sweep.device)).encode(
            fillOpacity=alt.FillOpacity("opacity:Q", scale=None)
        ),
        frame.transform_filter(f"datum.outcome == '{_BEST}'"),
        dashed.transform_filter(f"datum.outcome == '{_TIED}'"),
        base.mark_text(fontSize=12).encode(text=alt.Text("text:N")),
        heading=name,
        labels_px=_LABELS_PX,
        row_px=_CELL_PX,
    )


def _line(sweep: Sweep, axis: Axis) -> Panel:
    records = [
        {
            **_record(sweep, one, axis),
            "value": _speed(one),
            "low": one.throughput.low if one.throughput and one.throughput.n > 1 else None,
            "high": one.throughput.high if one.throughput and one.throughput.n > 1 else None,
            "done": one.throughput is not None,
        }
        for one in sweep.points
    ]
    x = alt.X(
        "x:O", sort=None, scale=alt.Scale(type="point", padding=0.6),
        axis=alt.Axis(title=axis.name, labelAngle=0, grid=False),
    )  # fmt: skip
    labels = labels_axis(_LABELS_PX, title="samples/s", tickCount=5, format="~s")
    y = alt.Y("value:Q", scale=alt.Scale(zero=True), axis=labels)
    base, fill = alt.Chart(rows(records)).encode(x=x, y=y), device_colour(sweep.device)
    done = base.transform_filter("datum.done")
    return panel(
        done.mark_line(stroke=fill),
        base.transform_filter("isValid(datum.low)").mark_rule().encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        done.mark_point(filled=True, size=60, fill=fill).encode(tooltip=_TOOLTIP),
        base.mark_text(dy=-12, align="center").encode(text=alt.Text("text:N")),
        height_px=_LINE_PX,
    )


def _record(sweep: Sweep, one: SweepPoint, axis: Axis) -> dict[str, Any]:
    return {
        "x": scalar_word(dict(one.point)[axis.name]),
        "text": numbers.estimate(one.throughput) if one.throughput else _outcome(sweep, one),
        "point": point_words(one.point),
        "speed": numbers.estimate(one.throughput),
        "interval": numbers.interval(one.throughput),
        "outcome": _outcome(sweep, one),
    }


_TOOLTIP = [
    alt.Tooltip("point:N"),
    alt.Tooltip("speed:N", title="samples/s"),
    alt.Tooltip("interval:N", title="95 % interval"),
    alt.Tooltip("outcome:N"),
]


def _speed(one: SweepPoint) -> float:
    return one.throughput.median if one.throughput else 0.0
