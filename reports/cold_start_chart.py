"""Cold start: what passes between the container's start and steady state, phase by phase."""

from __future__ import annotations

from typing import Any

from harness.model.analysis import Analysis, Summary
from harness.model.variants import variant_name
from reports import numbers
from reports.bars import ROW_PX, labels_px, panel_title, row_axis, row_label
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, phase_name
from reports.titles import titles_of
from workloads.protocol import BASELINE, BUILD, DATA, FIRST_STEP, IMPORT, TUNED, WARM_UP

_ROOM = 1.3
_COLOURS = {
    IMPORT: "var(--ph-import)",
    DATA: "var(--ph-data)",
    BUILD: "var(--ph-build)",
    FIRST_STEP: "var(--ph-first)",
    WARM_UP: "var(--ph-warm)",
}


def cold_start_figure(analysis: Analysis) -> Figure | None:
    """Draw the seconds of each phase before steady state, stacked; None when no phase was recorded."""
    titles = titles_of(analysis)
    shown = [each for each in analysis.summaries if each.variant in (BASELINE, TUNED) and each.cold_start]
    if not shown:
        return None
    phases = tuple(dict.fromkeys(phase for summary in shown for phase, _ in summary.cold_start))
    top = max(sum(seconds for _, seconds in summary.cold_start) for summary in shown)
    room_px = labels_px(map(row_label, shown))
    panels = [
        _panel(titles[workload], [each for each in shown if each.workload == workload], top, room_px)
        for workload in dict.fromkeys(summary.workload for summary in shown)
    ]
    rows = tuple(
        (
            titles[summary.workload], device_name(summary.device), variant_name(summary.variant),
            *(numbers.duration(dict(summary.cold_start)[phase]) if phase in dict(summary.cold_start) else "–"
              for phase in phases),
            numbers.duration(sum(seconds for _, seconds in summary.cold_start)),
        )
        for summary in shown
    )  # fmt: skip
    return Figure(
        id="figure-cold-start",
        title="Cold start, seconds from container start to steady state",
        description="Stacked bars of the phases before steady state; no part of the speeds.",
        spec=chart(panels, spacing=18),
        table=Table(
            header=("Workload", "Device", "Variant", *map(phase_name, phases), "Together"), rows=rows
        ),
        reserve_px=room_px + 4,
        rank=50,
        legend=tuple(Key(colour=_colour(phase), shape="bar", name=phase_name(phase)) for phase in phases),
        trial_ids=tuple(dict.fromkeys(trial for summary in shown for trial in summary.trial_ids)),
    )


def _colour(phase: str) -> str:
    return _COLOURS.get(phase, "var(--ph-other)")


def _panel(title: str, summaries: list[Summary], top: float, room_px: int) -> dict[str, Any]:
    parts, totals = [], []
    for summary in summaries:
        row = row_label(summary)
        start = 0.0
        for phase, seconds in summary.cold_start:
            parts.append(
                {"row": row, "a": round(start, 3), "b": round(start + seconds, 3), "c": _colour(phase),
                 "what": phase_name(phase), "long": numbers.duration(seconds),
                 "from": ", ".join(summary.trial_ids)}
            )  # fmt: skip
            start += seconds
        totals.append({"row": row, "label": numbers.duration(start)})
    y = row_axis(room_px)
    scale = {"domain": [0, (top or 1.0) * _ROOM], "nice": False}
    bars = {
        "data": {"values": parts},
        "mark": {"type": "bar", "height": 12},
        "encoding": {
            "x": {"field": "a", "type": "quantitative", "axis": None, "scale": scale},
            "x2": {"field": "b"}, "y": y,
            "fill": {"field": "c", "type": "nominal", "scale": None},
            "tooltip": [
                {"field": "what", "title": "phase", "type": "nominal"},
                {"field": "long", "title": "took", "type": "nominal"},
                {"field": "from", "title": "trials", "type": "nominal"},
            ],
        },
    }  # fmt: skip
    text = {
        "data": {"values": totals},
        "mark": {"type": "text", "align": "right", "baseline": "middle"},
        "encoding": {"x": {"value": "width"}, "y": y, "text": {"field": "label"}},
    }
    return {"title": panel_title(title, room_px), "height": {"step": ROW_PX}, "layer": [bars, text]}
