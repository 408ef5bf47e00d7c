"""A sweep's grid as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Axis, Sweep, SweepPoint
from harness.model.run import Status
from harness.rounding import point_words, scalar_word
from reports import numbers
from reports.charts import Figure, Key, Panel, Table, device_colour, labels_axis, panel, rows, stacked
from reports.names import device_name, variant_name

_CELL_PX = 46
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
    best = sweep.best
    return Figure(
        id=f"figure-sweep-{number}",
        title=f"{where}: samples per second",
        description=f"Speed over the values of {', '.join(axis.name for axis in sweep.axes)} as a map of cells, "
        "darker where faster. "
        + (f"The fastest point is {point_words(best.point)}." if best else "No point was measured."),
        spec=stacked(_maps(sweep), spacing=_BETWEEN_PX),
        table=sweep_table(sweep),
        reserve_px=_LABELS_PX + 4,
        legend=_legend(sweep),
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


def _maps(sweep: Sweep) -> list[Panel]:
    """Map the two axes with most effect; a third gives a panel for each of its values.

    A single axis is a map of one row. Of more axes than three, a cell stands for the best point of all that
    share its values.
    """
    varied = sorted(sweep.axes, key=lambda axis: (len(axis.values) > 1, axis.effect or 0.0), reverse=True)
    x, *down = sorted(varied[:2], key=lambda axis: len(axis.values), reverse=True)
    y, third = down[0] if down else None, varied[2] if len(varied) == 3 else None
    if third is None:
        rest = ", ".join(axis.name for axis in varied[2:])
        return [_map(sweep, x, y, f"the best over {rest}" if rest else "", sweep.points)]
    return [
        _map(sweep, x, y, f"{third.name} = {scalar_word(value)}", points)
        for value in third.values
        if (points := [one for one in sweep.points if (third.name, value) in one.point])
    ]


def _map(sweep: Sweep, x: Axis, y: Axis | None, name: str, points: Sequence[SweepPoint]) -> Panel:
    cells: dict[tuple[str, str], SweepPoint] = {}
    for one in points:
        place = _value(one, x), _value(one, y)
        if _speed(one) >= _speed(cells.setdefault(place, one)):
            cells[place] = one
    top = max((_speed(one) for one in sweep.points), default=0.0) or 1.0
    faint, full = _OPACITY
    records = [
        {
            **_record(sweep, one),
            "x": across,
            "y": down,
            "opacity": faint + (full - faint) * _speed(one) / top if one.throughput else 0.0,
        }
        for (across, down), one in cells.items()
    ]
    gap = alt.Scale(paddingInner=0.06, paddingOuter=0.03)
    labels = labels_axis(_LABELS_PX, title=y.name if y else None, labelLimit=_LABELS_PX - 30)
    base = alt.Chart(rows(records)).encode(
        x=alt.X("x:O", sort=None, scale=gap, axis=alt.Axis(title=x.name, labelAngle=0, ticks=False)),
        y=alt.Y("y:O", sort=None, scale=gap, axis=labels),
        tooltip=[alt.Tooltip(f"{field}:N") for field in ("point", "speed", "interval", "outcome")],
    )
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


def _record(sweep: Sweep, one: SweepPoint) -> dict[str, Any]:
    return {
        "text": numbers.estimate(one.throughput) if one.throughput else _outcome(sweep, one),
        "point": point_words(one.point),
        "speed": numbers.estimate(one.throughput),
        "interval": numbers.interval(one.throughput),
        "outcome": _outcome(sweep, one),
    }


def _value(one: SweepPoint, axis: Axis | None) -> str:
    return scalar_word(dict(one.point)[axis.name]) if axis else ""


def _speed(one: SweepPoint) -> float:
    return one.throughput.median if one.throughput else 0.0
