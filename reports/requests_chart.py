"""Lines of latency: against the batch size, and against the rate at which requests come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Analysis, Latency
from reports import numbers
from reports.charts import Figure, Key, Panel, Table, labels_axis, panel, rows, stacked
from reports.names import device_name, is_gpu, titles_of, variant_name
from reports.palette import line_colour
from workloads.protocol import BASELINE, SERVER, SINGLE_STREAM, TUNED

_LABELS_PX = 62
_PANEL_PX = 170
_SPACING_PX = 76  # room for an axis with its title and the next panel's own


def latency_figure(analysis: Analysis) -> Figure | None:
    """Draw latency and speed against the batch size; None where no workload was asked at several."""
    titles = titles_of(analysis)
    own = [
        one
        for one in analysis.latencies
        if one.scenario == SINGLE_STREAM and one.variant in (BASELINE, TUNED)
    ]
    panels: list[Panel] = []
    shown: list[Latency] = []
    for workload in dict.fromkeys(one.workload for one in own):
        group = [one for one in own if one.workload == workload]
        if len({one.batch_size for one in group}) < 2:
            continue
        shown += group
        speeds = [_record(one, one.batch_size, one.samples_per_s.median, "p50") for one in group]
        panels += [
            _panel(f"{titles[workload]}: latency of a request, ms", _latencies(group), "batch size"),
            _panel(f"{titles[workload]}: samples a second", speeds, "batch size"),
        ]
    if not panels:
        return None
    return Figure(
        id="figure-latency",
        title="Latency and speed against the batch size",
        description="Lines of the median (drawn through) and of the 99th percentile (dashed; the 90th where "
        "requests were too few) of latency, and of samples a second, against the batch size.",
        spec=stacked(panels, spacing=_SPACING_PX),
        table=Table(
            header=("Workload", "Device", "Variant", "Batch", "samples/s", "p50", "p90", "p99", "Requests"),
            rows=tuple(
                (titles[one.workload], device_name(one.device), variant_name(one.variant),
                 str(one.batch_size), numbers.estimate(one.samples_per_s), *_cells(one), str(one.requests))
                for one in shown
            ),
        ),
        reserve_px=_LABELS_PX + 4,
        legend=_legend(shown, "line", "dash"),
    )  # fmt: skip


def server_figure(analysis: Analysis) -> Figure | None:
    """Draw the 99th percentile of latency against the rate of requests; None where no server was measured."""
    titles = titles_of(analysis)
    shown = [one for one in analysis.latencies if one.scenario == SERVER and one.rate_per_s]
    if not shown:
        return None
    panels = []
    for workload in dict.fromkeys(one.workload for one in shown):
        whole = [one for one in shown if one.workload == workload and one.requests >= one.planned]
        title = f"{titles[workload]}: latency, ms"
        panels.append(_panel(title, _latencies(whole), "requests offered a second", points_only=True))
    return Figure(
        id="figure-server",
        title="Latency against the rate of requests",
        description="Points of latency against the rate at which single samples were offered, each a series "
        "of one trial: the median filled, the 99th percentile hollow. A series that was given up is left "
        "out: it could not keep to the bound.",
        spec=stacked(panels, spacing=_SPACING_PX),
        table=Table(
            header=("Workload", "Device", "Variant", "Offered, 1/s", "Served, 1/s", "p50", "p90", "p99",
                    "Served of planned"),
            rows=tuple(
                (titles[one.workload], device_name(one.device), variant_name(one.variant),
                 numbers.number(one.rate_per_s or 0.0), numbers.estimate(one.samples_per_s), *_cells(one),
                 f"{one.requests} of {one.planned}" + ("" if one.requests == one.planned else ", given up"))
                for one in shown
            ),
        ),
        reserve_px=_LABELS_PX + 4,
        legend=_legend(shown, "dot", "ring"),
    )  # fmt: skip


def _cells(one: Latency) -> tuple[str, ...]:
    return tuple(
        numbers.duration(one.quantiles_s[name]) if name in one.quantiles_s else "–"
        for name in ("p50", "p90", "p99")
    )


def _legend(shown: Sequence[Latency], median: str, high: str) -> tuple[Key, ...]:
    """List devices and variants by their colours, and the two quantiles by the shapes they are drawn in."""
    names = {
        line_colour(
            one.device, one.variant
        ): f"{'GPU' if is_gpu(one.device) else 'CPU'} {variant_name(one.variant)}"
        for one in shown
    }
    highs = dict.fromkeys(_high(one) for one in shown if _high(one) in one.quantiles_s)
    return (
        *(Key(colour=fill, shape="line", name=name) for fill, name in names.items()),
        Key(colour="var(--ink-2)", shape=median, name="median"),
        *(Key(colour="var(--ink-2)", shape=high, name=f"{name[1:]}th percentile") for name in highs),
    )


def _high(one: Latency) -> str:
    return "p99" if "p99" in one.quantiles_s else "p90"


def _latencies(group: Sequence[Latency]) -> list[dict[str, Any]]:
    return [
        _record(one, one.rate_per_s or one.batch_size, one.quantiles_s[name] * 1e3, name)
        for one in group
        for name in ("p50", _high(one))
        if name in one.quantiles_s
    ]


def _record(one: Latency, x: float, y: float, name: str) -> dict[str, Any]:
    return {
        "x": x, "y": y, "colour": line_colour(one.device, one.variant), "quantile": name,
        "dash": [1, 0] if name == "p50" else [5, 3],
        "line": f"{device_name(one.device)} {variant_name(one.variant)} {name}", "text": numbers.number(y),
    }  # fmt: skip


def _panel(title: str, records: list[dict[str, Any]], x_title: str, *, points_only: bool = False) -> Panel:
    """Draw one panel on logarithmic axes: each line a device's variant and a quantile."""
    scale = alt.Scale(type="log", base=10 if points_only else 2, nice=False, padding=12)
    x = alt.X("x:Q", scale=scale, axis=alt.Axis(title=x_title, grid=False, format="~s", tickCount=6))
    y = alt.Y("y:Q", scale=alt.Scale(type="log"), axis=labels_axis(_LABELS_PX, tickCount=3, format="~s"))
    base = alt.Chart(rows(records)).encode(x=x, y=y, stroke=alt.Stroke("colour:N", scale=None))
    fill = alt.condition(
        "datum.quantile == 'p50'", alt.Fill("colour:N", scale=None), alt.value("var(--paper)")
    )
    tooltip = [
        alt.Tooltip("line:N", title="what"),
        alt.Tooltip("x:Q", title=x_title, format=".4~g"),
        alt.Tooltip("text:N", title="value"),
    ]
    points = base.mark_point(size=34, strokeWidth=1.5).encode(fill=fill, tooltip=tooltip)
    lines = base.mark_line(strokeWidth=1.6).encode(
        detail=alt.Detail("line:N"), strokeDash=alt.StrokeDash("dash:N", scale=None)
    )
    return panel(
        *([points] if points_only else [lines, points]),
        heading=title,
        labels_px=_LABELS_PX,
        height_px=_PANEL_PX,
    )
