"""What each optimization step gains over the baseline, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.analysis.compare import OPTIMIZATION_OVER_BASELINE, TUNED_OVER_BASELINE
from harness.model.analysis import Analysis, Summary
from reports import numbers
from reports.charts import Figure, Table, labels_axis, layered, rows, stacked
from reports.messages import device_of_row
from reports.names import is_gpu, titles_of, variant_name
from workloads.protocol import BASELINE, OPTIMIZATION_PREFIX, PARALLEL_INPUT, TUNED, WITHOUT_PREFIX

_LABELS_PX = 150
_TEXT_PX = 150
_ROW_PX = 18


def gains_figure(analysis: Analysis) -> Figure | None:
    """Draw baseline, single changes and tuned of each workload and device; None where nothing was changed."""
    titles = titles_of(analysis)
    devices = list(dict.fromkeys(each.device for each in analysis.summaries))
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in analysis.summaries:
        if summary.variant in (BASELINE, PARALLEL_INPUT, TUNED) or summary.variant.startswith(
            (OPTIMIZATION_PREFIX, WITHOUT_PREFIX)
        ):
            groups.setdefault((summary.workload, summary.device), []).append(summary)
    gains = {
        (each.workload, each.numerator): each.ratio.median
        for each in analysis.comparisons
        if each.kind in (TUNED_OVER_BASELINE, OPTIMIZATION_OVER_BASELINE)
    }
    panels, cells = [], []
    for (workload, device), own in groups.items():
        base = next((each for each in own if each.variant == BASELINE), None)
        if base is None or len(own) < 2:
            continue
        ordered = sorted(own, key=lambda each: (each.variant == TUNED, each.variant != BASELINE))
        records = [_record(each, gains.get((workload, f"{device}/{each.variant}"))) for each in ordered]
        where = device_of_row(device, devices)
        panels.append(_panel(f"{titles[workload]}, {where}", records))
        cells += [(titles[workload], where, each["row"], each["text"], each["changes"]) for each in records]
    if not panels:
        return None
    return Figure(
        id="figure-gains",
        title="Gains over the baseline, step by step",
        description="Bars of samples a second on a logarithmic axis, for the baseline, single changes and tuned.",
        spec=stacked(panels, spacing=48),
        table=Table(header=("Workload", "Device", "Variant", "Speed", "Changes"), rows=tuple(cells)),
        reserve_px=_LABELS_PX + _TEXT_PX,
        rank=2,
    )


def _record(summary: Summary, gain: float | None) -> dict[str, Any]:
    text = numbers.speed(summary.throughput)
    return {
        "row": variant_name(summary.variant),
        "value": summary.throughput.median,
        "low": summary.throughput.low,
        "high": summary.throughput.high,
        "text": text if gain is None else f"{text}, {numbers.factor(gain)}",
        "changes": ", ".join(f"{each.what} {each.before} → {each.after}" for each in summary.changes),
        "colour": "var(--gpu)" if is_gpu(summary.device) else "var(--cpu)",
    }


def _panel(heading: str, records: Sequence[dict[str, Any]]) -> alt.LayerChart:
    order = [record["row"] for record in records]
    least = min(record["value"] for record in records)
    scale = alt.Scale(type="log", domainMin=10 ** _power_below(least))
    base = alt.Chart(rows([{**record, "from": 10 ** _power_below(least)} for record in records])).encode(
        y=alt.Y("row:N", sort=order, axis=labels_axis(_LABELS_PX))
    )
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=4, format="~s"))
    return layered(
        base.mark_bar(height=_ROW_PX - 8).encode(
            x=x,
            x2="from:Q",
            color=alt.Color("colour:N", scale=None),
            tooltip=["row:N", "text:N", "changes:N"],
        ),
        base.mark_rule(stroke="var(--ink)", strokeWidth=1.5).encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", baseline="middle", dx=8).encode(x=alt.value("width"), text="text:N"),
        heading=heading,
        labels_px=_LABELS_PX,
        row_px=_ROW_PX,
    )


def _power_below(value: float) -> int:
    """Return the largest power of ten below half of a value."""
    power = 0
    while 10**power > value / 2:
        power -= 1
    while 10 ** (power + 1) <= value / 2:
        power += 1
    return power
