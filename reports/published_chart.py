"""This machine beside published numbers: how many times as fast, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Analysis, PublishedComparison
from reports import numbers
from reports.charts import Figure, Table, labels_axis, layered, rows, stacked
from reports.messages import device_of_row, published_note
from reports.names import is_gpu, titles_of

_LABELS_PX = 330
_TEXT_PX = 90
_ROW_PX = 22


def published_figure(analysis: Analysis) -> Figure | None:
    """Draw each published speed, time or ratio that was measured here; None where there is none."""
    shown = [each for each in analysis.published if each.factor is not None]
    if not shown:
        return None
    titles = titles_of(analysis)
    devices = list(dict.fromkeys(each.device for each in analysis.published))
    records = [_record(each, titles, devices) for each in shown]
    return Figure(
        id="figure-published",
        title="Here over published: 1× is as fast as published",
        description="Dots on a logarithmic axis: how many times the published speed or ratio was measured here.",
        spec=stacked([_panel(records)]),
        table=Table(
            header=("Workload", "Published for", "Published", "Here", "Here / published", "Note"),
            rows=tuple(_cells(each, titles, devices) for each in shown),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
        rank=3,
    )


def _cells(each: PublishedComparison, titles: dict[str, str], devices: Sequence[str]) -> tuple[str, ...]:
    return (
        f"{titles[each.workload]}, {device_of_row(each.device, devices)}",
        f"{each.system} ({each.source})",
        numbers.published(each.value, each.upto, each.unit),
        numbers.quantity(each.measured.median, each.unit) if each.measured else numbers.MISSING,
        numbers.factor(each.factor.median) if each.factor else numbers.MISSING,
        published_note(each),
    )


def _record(each: PublishedComparison, titles: dict[str, str], devices: Sequence[str]) -> dict[str, Any]:
    assert each.factor is not None
    what = {"ratio": "GPU/CPU", "requests ratio": "GPU/CPU requests", "gain": "gain by tuning"}.get(
        each.unit, ""
    )
    where = device_of_row(each.device, devices)
    number = numbers.published(each.value, each.upto, each.unit)
    return {
        "row": f"{each.workload} {what or where} / {each.system.split(',')[0]}: {number}",
        "value": each.factor.median,
        "low": each.factor.low,
        "high": each.factor.high,
        "text": numbers.factor(each.factor.median),
        "colour": "var(--gpu)" if is_gpu(each.device) else "var(--cpu)",
    }


def _panel(records: Sequence[dict[str, Any]]) -> alt.LayerChart:
    values = [record[side] for record in records for side in ("value",)] + [0.5, 2.0]
    scale = alt.Scale(type="log", domain=[min(values) / 1.3, max(values) * 1.3], nice=False)
    base = alt.Chart(rows(records)).encode(
        y=alt.Y("row:N", sort=[record["row"] for record in records], axis=labels_axis(_LABELS_PX))
    )
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=5, format="~g"))
    one = alt.Chart(rows([{"value": 1.0}])).mark_rule(stroke="var(--ink-2)", strokeDash=[4, 3]).encode(x=x)
    return layered(
        one,
        base.mark_rule(stroke="var(--ink)", strokeWidth=1.5, clip=True).encode(x="low:Q", x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x, color=alt.Color("colour:N", scale=None)),
        base.mark_text(align="left", baseline="middle", dx=8).encode(x=alt.value("width"), text="text:N"),
        row_px=_ROW_PX,
    )
