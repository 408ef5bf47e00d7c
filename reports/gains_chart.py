"""What each optimization step gains over the baseline, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.analysis.compare import OPTIMIZATION_OVER_BASELINE, TUNED_OVER_BASELINE
from harness.model.analysis import Analysis, Summary
from reports import charts, numbers
from reports.names import devices_of, titles_of, variant_name
from workloads.protocol import BASELINE, TUNED, WITHOUT_INPUT, changes_baseline

_LABELS_PX = 150
_TEXT_PX = 150
_ROW_PX = 17


def gains_figure(analysis: Analysis) -> charts.Figure | None:
    """Draw baseline, single changes and tuned of each workload and device; None where nothing was changed."""
    titles = titles_of(analysis)
    devices = devices_of(analysis)
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in analysis.summaries:
        changed = changes_baseline(summary.variant) and summary.variant != WITHOUT_INPUT
        if changed or summary.variant in (BASELINE, TUNED):
            groups.setdefault((summary.workload, summary.device), []).append(summary)
    gains = {
        (each.workload, each.numerator): each.ratio.median
        for each in analysis.comparisons
        if each.kind in (TUNED_OVER_BASELINE, OPTIMIZATION_OVER_BASELINE)
    }
    panels, cells = [], []
    for (workload, device), own in groups.items():
        if len(own) < 2 or all(each.variant != BASELINE for each in own):
            continue
        ordered = sorted(own, key=lambda each: (each.variant == TUNED, each.variant != BASELINE))
        records = [_record(each, gains.get((workload, f"{device}/{each.variant}"))) for each in ordered]
        where = devices[device]
        panels.append(_panel(f"{titles[workload]}, {where}", records))
        cells += [(titles[workload], where, each["row"], each["text"], each["changes"]) for each in records]
    if not panels:
        return None
    return charts.Figure(
        id="figure-gains",
        title="Gains over the baseline, step by step",
        description="Bars of samples a second on a logarithmic axis, for the baseline, single changes and tuned.",
        spec=charts.stacked(panels, spacing=44),
        table=charts.Table(header=("Workload", "Device", "Variant", "Speed", "Changes"), rows=tuple(cells)),
        reserve_px=_LABELS_PX + _TEXT_PX,
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
        "colour": charts.device_colour(summary.device),
    }


def _panel(heading: str, records: Sequence[dict[str, Any]]) -> charts.Panel:
    # Bars begin at the largest power of ten below half of the slowest.
    start = 10.0 ** math.floor(math.log10(min(record["value"] for record in records) / 2))
    scale = alt.Scale(type="log", domainMin=start)
    base = charts.labelled([{**record, "from": start} for record in records], _LABELS_PX)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=4, format="~s"))
    return charts.panel(
        base.mark_bar(height=_ROW_PX - 8).encode(
            x=x,
            x2=alt.X2("from:Q"),
            tooltip=[alt.Tooltip("row:N"), alt.Tooltip("text:N"), alt.Tooltip("changes:N")],
            color=charts.COLOUR,
        ),
        charts.whiskers(base),
        charts.beside(base),
        heading=heading,
        labels_px=_LABELS_PX,
        row_px=_ROW_PX,
    )
