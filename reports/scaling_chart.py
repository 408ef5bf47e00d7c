"""Training over several workers: the speed of all of them together, by their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.model.scaling import Point, Scaling
from harness.rounding import counted
from reports import numbers
from reports.charts import (
    COLOUR,
    Figure,
    Panel,
    Table,
    beside,
    device_colour,
    labelled,
    panel,
    stacked,
    whiskers,
)
from reports.names import device_name, variant_name

_LABELS_PX = 90
_TEXT_PX = 170
_ROW_PX = 22


def scaling_figure(scaling: Scaling) -> Figure | None:
    """Draw speed by the number of workers; None where nothing was measured."""
    groups: dict[str, list[Point]] = {}
    for point in scaling.points:
        name = f"{point.workload}, {device_name(point.device)}, {variant_name(point.variant)}"
        groups.setdefault(name, []).append(point)
    if not groups:
        return None
    return Figure(
        id="figure-scaling",
        title="Speed of all workers together",
        description="Bars of samples a second by the number of workers, with 95 % intervals; a tick marks that many "
        "times one worker's speed.",
        spec=stacked([_panel(name, points) for name, points in groups.items()], spacing=24),
        table=Table(
            header=("What", "Workers", "Speed", "95 % interval", "Efficiency"),
            rows=tuple(
                (name, str(each.workers), numbers.speed(each.throughput), numbers.interval(each.throughput),
                 numbers.percent(each.efficiency.median if each.efficiency else None))
                for name, points in groups.items() for each in points
            ),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
    )  # fmt: skip


def _panel(heading: str, points: Sequence[Point]) -> Panel:
    base = labelled([_record(each, points[0]) for each in points], _LABELS_PX)
    bars = base.mark_bar(height=_ROW_PX - 9)
    ideal = base.mark_tick(stroke="var(--ink-2)", thickness=2, height=_ROW_PX - 6)
    return panel(
        bars.encode(x=alt.X("value:Q", axis=None), color=COLOUR, tooltip=[alt.Tooltip("text:N")]),
        whiskers(base),
        ideal.encode(x=alt.X("ideal:Q")),
        beside(base),
        heading=heading,
        labels_px=_LABELS_PX,
        row_px=_ROW_PX,
    )


def _record(point: Point, first: Point) -> dict[str, Any]:
    known = point.efficiency is not None and point.workers > 1
    efficiency = f", {numbers.percent(point.efficiency.median)}" if known and point.efficiency else ""
    return {
        "row": counted(point.workers, "worker"),
        "value": point.throughput.median,
        "low": point.throughput.low,
        "high": point.throughput.high,
        "ideal": first.throughput.median * point.workers / first.workers,
        "text": f"{numbers.speed(point.throughput)}{efficiency}",
        "colour": device_colour(point.device),
    }
