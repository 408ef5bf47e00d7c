"""Step times: how single steps are spread, from the same trials as the medians."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import Analysis, Summary
from harness.model.variants import variant_name
from reports import numbers
from reports.bars import colour, labels_px, panel_title, row_label
from reports.charts import Figure, Table, chart
from reports.names import device_name
from reports.speed_chart import device_legend
from reports.titles import titles_of
from workloads.protocol import BASELINE, TUNED

_ROW_PX = 34
_BINS = 72
_VARIANTS = (BASELINE, TUNED)


def steps_figure(analysis: Analysis) -> Figure | None:
    """Draw the spread of single step times on a logarithmic axis; None when no steps were recorded."""
    titles = titles_of(analysis)
    drawn: list[tuple[Summary, NDArray[np.float64]]] = []
    for summary in analysis.summaries:
        if summary.variant in _VARIANTS:
            seconds = _single_steps(analysis, summary)
            if len(seconds):
                drawn.append((summary, seconds))
    if not drawn:
        return None
    room_px = labels_px(row_label(summary) for summary, _ in drawn)
    panels = [
        _panel(titles[workload], [each for each in drawn if each[0].workload == workload], room_px)
        for workload in dict.fromkeys(summary.workload for summary, _ in drawn)
    ]
    return Figure(
        id="figure-steps",
        title="Single step times in steady state, share of steps, logarithmic axis",
        description="How long single steps took, as the host saw them. A narrow hill means steady steps; a "
        "second hill or a long tail means that some steps waited. The table below gives the quantiles.",
        spec=chart(panels, spacing=22),
        table=_table(drawn, titles),
        reserve_px=room_px + 4,
        rank=40,
        legend=device_legend([summary for summary, _ in drawn]),
        trial_ids=tuple(dict.fromkeys(trial for summary, _ in drawn for trial in summary.trial_ids)),
    )


def _single_steps(analysis: Analysis, summary: Summary) -> NDArray[np.float64]:
    wanted = set(summary.trial_ids)
    parts = [
        steps.step_ns
        for trial in analysis.run.trials
        if trial.id in wanted
        for steps in trial.steps
        if steps.variant == summary.variant
    ]
    together = np.concatenate(parts) if parts else np.empty(0)
    return together[together > 0] / 1e9


def _panel(title: str, drawn: list[tuple[Summary, NDArray[np.float64]]], room_px: int) -> dict[str, Any]:
    low = min(float(seconds.min()) for _, seconds in drawn)
    high = max(float(seconds.max()) for _, seconds in drawn)
    edges = np.geomspace(low * 0.98, high * 1.02, _BINS + 1)
    rows = []
    labels = []
    for position, (summary, seconds) in enumerate(drawn):
        counts, _ = np.histogram(seconds, edges)
        share = counts / counts.sum()
        base = len(drawn) - 1 - position
        labels.append({"y": base + 0.28, "label": row_label(summary)})
        for left, right, part in zip(edges[:-1].tolist(), edges[1:].tolist(), share.tolist(), strict=True):
            if part:
                rows.append(
                    {"a": round(left * 1e3, 5), "b": round(right * 1e3, 5), "y": base,
                     "top": round(base + 0.86 * part / float(share.max()), 3),
                     "c": colour(summary.device, summary.variant),
                     "what": row_label(summary),
                     "range": f"{numbers.duration(left)} to {numbers.duration(right)}",
                     "share": numbers.percent(part)}
                )  # fmt: skip
    x = {
        "field": "a", "type": "quantitative",
        "scale": {"type": "log", "domain": [float(edges[0]) * 1e3, float(edges[-1]) * 1e3], "nice": False},
        "axis": {"title": "milliseconds a step", "tickCount": 6, "format": "~g", "labelOverlap": True},
    }  # fmt: skip
    scale = {"domain": [0, len(drawn)], "nice": False}
    y = {"field": "y", "type": "quantitative", "scale": scale, "axis": None}
    bars = {
        "data": {"values": rows},
        "mark": {"type": "rect"},
        "encoding": {
            "x": x, "x2": {"field": "b"},
            "y": y, "y2": {"field": "top"},
            "fill": {"field": "c", "type": "nominal", "scale": None},
            "tooltip": [
                {"field": "what", "title": "what", "type": "nominal"},
                {"field": "range", "title": "step time", "type": "nominal"},
                {"field": "share", "title": "of all steps", "type": "nominal"},
            ],
        },
    }  # fmt: skip
    text = {
        "data": {"values": labels},
        "mark": {"type": "text", "align": "right", "dx": -12, "fill": "var(--ink-2)", "limit": room_px - 12},
        "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "label"}},
    }  # fmt: skip
    return {
        "title": panel_title(title, room_px), "height": _ROW_PX * len(drawn), "layer": [bars, text],
    }  # fmt: skip


def _quantile(summary: Summary, name: str) -> str:
    seconds = summary.step_quantiles.get(name)
    return numbers.MISSING if seconds is None else numbers.duration(seconds)


def _table(drawn: list[tuple[Summary, NDArray[np.float64]]], titles: dict[str, str]) -> Table:
    names = tuple(dict.fromkeys(name for summary, _ in drawn for name in summary.step_quantiles))
    rows = tuple(
        (
            titles[summary.workload], device_name(summary.device), variant_name(summary.variant),
            *(_quantile(summary, name) for name in names),
            f"{len(seconds):,}".replace(",", numbers.THIN),
        )
        for summary, seconds in drawn
    )  # fmt: skip
    return Table(header=("Workload", "Device", "Variant", *names, "Steps"), rows=rows)
