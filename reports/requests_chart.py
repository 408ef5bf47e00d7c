"""Lines of latency: against the batch size, and against the rate at which requests come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.analysis import Analysis, Latency
from reports import numbers
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, is_gpu, titles_of, variant_name
from reports.palette import line_colour
from workloads.protocol import BASELINE, SERVER, SINGLE_STREAM, TUNED

_LABELS_PX = 62
_PANEL_PX = 170
_SPACING_PX = 76  # room for an axis with its title and the next panel's own
_DASHES: Mapping[str, list[int]] = {"p50": [1, 0], "p99": [5, 3], "p90": [5, 3]}
_VARIANTS = (BASELINE, TUNED)


def latency_figure(analysis: Analysis) -> Figure | None:
    """Draw latency and speed against the batch size; None where no workload was asked at several."""
    titles = titles_of(analysis)
    own = [one for one in analysis.latencies if one.scenario == SINGLE_STREAM and one.variant in _VARIANTS]
    panels: list[dict[str, Any]] = []
    shown: list[Latency] = []
    for workload in dict.fromkeys(one.workload for one in own):
        group = [one for one in own if one.workload == workload]
        if len({one.batch_size for one in group}) < 2:
            continue
        shown += group
        panels += [
            _panel(f"{titles[workload]}: latency of a request, ms", _quantiles(group, "batch"), "batch size"),
            _panel(f"{titles[workload]}: samples a second", _speeds(group), "batch size"),
        ]
    if not panels:
        return None
    return Figure(
        id="figure-latency",
        title="Latency and speed against the batch size",
        description="Lines of the median (drawn through) and of the 99th percentile (dashed; the 90th where "
        "requests were too few) of latency, and of samples a second, against the batch size.",
        spec=chart(panels, spacing=_SPACING_PX),
        table=Table(
            header=("Workload", "Device", "Variant", "Batch", "samples/s", "p50", "p90", "p99", "Requests"),
            rows=tuple(
                (titles[one.workload], device_name(one.device), variant_name(one.variant),
                str(one.batch_size),
                 numbers.estimate(one.samples_per_s), *_cells(one), str(one.requests))
                for one in shown
            ),
        ),
        reserve_px=_LABELS_PX + 4,
        rank=5,
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
        group = sorted(
            (one for one in shown if one.workload == workload), key=lambda one: one.rate_per_s or 0.0
        )
        title = f"{titles[workload]}: latency, ms"
        panels.append(_panel(title, _quantiles(group, "rate"), "requests offered a second", points_only=True))
    return Figure(
        id="figure-server",
        title="Latency against the rate of requests",
        description="Points of latency against the rate at which single samples were offered, each a series "
        "of one trial: the median filled, the 99th percentile hollow. A series that was given up is left "
        "out: it could not keep to the bound.",
        spec=chart(panels, spacing=_SPACING_PX),
        table=Table(
            header=("Workload", "Device", "Variant", "Offered, 1/s", "Served, 1/s", "p50", "p90", "p99",
                    "Served of planned"),
            rows=tuple(
                (titles[one.workload], device_name(one.device), variant_name(one.variant),
                 numbers.number(one.rate_per_s or 0.0, 3), numbers.estimate(one.samples_per_s), *_cells(one),
                 f"{one.requests} of {one.planned}" + ("" if one.requests == one.planned else ", given up"))
                for one in shown
            ),
        ),
        reserve_px=_LABELS_PX + 4,
        rank=6,
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


def _quantiles(group: Sequence[Latency], against: str) -> list[dict[str, Any]]:
    rows = []
    for one in group:
        if one.scenario == SERVER and one.requests < one.planned:
            continue
        for name in ("p50", _high(one)):
            if name in one.quantiles_s:
                x = one.batch_size if against == "batch" else one.rate_per_s
                rows.append(_row(one, x or 0.0, one.quantiles_s[name] * 1e3, name))
    return rows


def _speeds(group: Sequence[Latency]) -> list[dict[str, Any]]:
    return [_row(one, one.batch_size, one.samples_per_s.median, "p50") for one in group]


def _row(one: Latency, x: float, y: float, name: str) -> dict[str, Any]:
    return {
        "x": x, "y": y, "colour": line_colour(one.device, one.variant), "dash": name,
        "line": f"{device_name(one.device)} {variant_name(one.variant)} {name}", "text": numbers.number(y, 3),
    }  # fmt: skip


def _panel(title: str, rows: list[dict[str, Any]], x_title: str, points_only: bool = False) -> dict[str, Any]:
    """Draw one panel on logarithmic axes: each line a device's variant and a quantile."""
    axis = {"minExtent": _LABELS_PX, "maxExtent": _LABELS_PX, "tickCount": 3, "format": "~s"}
    x: dict[str, Any] = {
        "field": "x", "type": "quantitative", "title": x_title,
        "scale": {"type": "log", "base": 10 if points_only else 2, "nice": False, "padding": 12},
        "axis": {"grid": False, "format": "~s", "tickCount": 6},
    }  # fmt: skip
    y = {"field": "y", "type": "quantitative", "title": None, "scale": {"type": "log"}, "axis": axis}
    stroke = {"field": "colour", "type": "nominal", "scale": None}
    tooltip = [
        {"field": "line", "title": "what", "type": "nominal"},
        {"field": "x", "title": x_title, "type": "quantitative", "format": ".4~g"},
        {"field": "text", "title": "value", "type": "nominal"},
    ]
    dash = {
        "field": "dash", "type": "nominal", "legend": None,
        "scale": {"domain": list(_DASHES), "range": list(_DASHES.values())},
    }  # fmt: skip
    median = {"test": "datum.dash == 'p50'", "field": "colour", "type": "nominal", "scale": None}
    points = {
        "mark": {"type": "point", "size": 34, "strokeWidth": 1.5},
        "encoding": {
            "x": x, "y": y, "stroke": stroke, "tooltip": tooltip,
            "fill": {"condition": median, "value": "var(--paper)"},
        },
    }  # fmt: skip
    lines = {
        "mark": {"type": "line", "strokeWidth": 1.6},
        "encoding": {
            "x": x, "y": y, "stroke": stroke, "strokeDash": dash,
            "detail": {"field": "line", "type": "nominal"},
        },
    }  # fmt: skip
    return {
        "title": {"text": title, "dx": -_LABELS_PX},
        "height": _PANEL_PX,
        "data": {"values": rows},
        "layer": [points] if points_only else [lines, points],
    }
