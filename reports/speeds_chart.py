"""How fast each workload is: its published code, single changes to it, and all of them, on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.model.analysis import Analysis, RatioKind, Summary
from reports import charts, numbers
from reports.names import devices_of, titles_of, variant_name
from reports.pipeline_chart import shown_pipelines
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, WITHOUT_INPUT, changes_baseline

_LABELS_PX = 170
_TEXT_PX = 130
_ROW_PX = 15


def speeds_figure(analysis: Analysis) -> charts.Figure | None:
    """Draw what was changed of each workload, and its ceilings where input matters; None where nothing was."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    limited = {(each.workload, each.device) for each in shown_pipelines(analysis)}
    groups: dict[str, list[Summary]] = {}
    for each in analysis.summaries:
        if _shown(each.variant, ceilings=(each.workload, each.device) in limited):
            groups.setdefault(each.workload, []).append(each)
    panels, cells = [], []
    for workload, own in groups.items():
        if not {BASELINE} < {each.variant for each in own}:
            continue
        records: list[dict[str, Any]] = []
        for each in _ordered(own):
            gain = analysis.ratio(RatioKind.OVER_BASELINE, each.key)
            row, speed = (
                f"{devices[each.device]} {variant_name(each.variant)}",
                numbers.speed(each.throughput),
            )
            text = f"{speed}, {numbers.factor(gain.median)}" if gain else speed
            changes = ", ".join(f"{item.what} {item.before} → {item.after}" for item in each.changes)
            records.append(
                {
                    **charts.span(each.throughput),
                    "row": row,
                    "text": text,
                    "name": changes,
                    "colour": charts.device_colour(each.device),
                }
            )
            cells.append((titles[workload], row, text, changes))
        x = charts.speed_axis(record[end] for record in records for end in ("low", "high"))
        panels.append(
            charts.measured(records, x, heading=titles[workload], labels_px=_LABELS_PX, row_px=_ROW_PX)
        )
    if not panels:
        return None
    return charts.Figure(
        id="figure-speeds",
        title="Samples a second: single changes, and all of them (tuned)",
        description="Dots on a logarithmic axis with 95 % intervals, for the baseline, single changes and tuned.",
        spec=charts.stacked(panels, spacing=44),
        table=charts.Table(header=("Workload", "Variant", "Speed", "Changes"), rows=tuple(cells)),
        reserve_px=_LABELS_PX + _TEXT_PX,
    )


def _shown(variant: str, *, ceilings: bool) -> bool:
    if variant in (INPUT_ONLY, MODEL_ONLY):
        return ceilings
    return variant in (BASELINE, TUNED) or (changes_baseline(variant) and variant != WITHOUT_INPUT)


def _ordered(own: Sequence[Summary]) -> list[Summary]:
    """Put the ceilings of each device first, then the baseline, and tuned last."""
    order = {INPUT_ONLY: 0, MODEL_ONLY: 1, BASELINE: 2, TUNED: 4}
    devices = list(dict.fromkeys(each.device for each in own))
    return sorted(own, key=lambda each: (devices.index(each.device), order.get(each.variant, 3)))
