"""Latency against the batch size, and against the rate at which requests come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
_NAMES = ("p50", "p90", "p99")


def requests_figure(analysis: Analysis) -> Figure | None:
    """Draw the latency of requests; None where none was measured."""
    titles = titles_of(analysis)
    groups: dict[tuple[str, str], list[Latency]] = {}
    for each in analysis.latencies:
        if each.scenario == SERVER or each.variant in (BASELINE, TUNED):
            groups.setdefault((each.workload, each.scenario), []).append(each)
    if not groups:
        return None
    shown = [each for own in groups.values() for each in own]
    return Figure(
        id="figure-requests",
        title="Latency of requests",
        description="The median of latency, filled, and the 99th percentile, hollow (the 90th where requests were "
        "too few), against the batch size of single requests and against the rate at which requests were offered. "
        "A series of requests that was given up is left out: it could not keep to the bound.",
        spec=stacked(
            [_panel(titles[workload], scenario, own) for (workload, scenario), own in groups.items()],
            spacing=_SPACING_PX,
        ),
        table=Table(
            header=("Workload, device, variant", "Requests", "Served, samples/s", *_NAMES, "Served of planned"),
            rows=tuple(_cells(titles[each.workload], each) for each in shown),
        ),
        reserve_px=_LABELS_PX + 4,
        legend=_legend(shown),
    )  # fmt: skip


def _cells(title: str, each: Latency) -> tuple[str, ...]:
    asked = (
        f"batch {each.batch_size}"
        if each.rate_per_s is None
        else f"{numbers.number(each.rate_per_s)}/s offered"
    )
    quantiles = (each.quantiles_s.get(name) for name in _NAMES)
    return (
        f"{title}, {device_name(each.device)}, {variant_name(each.variant)}",
        asked,
        numbers.speed(each.samples_per_s),
        *(numbers.MISSING if value is None else numbers.duration(value) for value in quantiles),
        f"{each.requests} of {each.planned}",
    )


def _legend(shown: Sequence[Latency]) -> tuple[Key, ...]:
    """List devices and variants by their colours, and the two quantiles by the shapes they are drawn in."""
    names = {
        line_colour(each.device, each.variant): f"{'GPU' if is_gpu(each.device) else 'CPU'} "
        f"{variant_name(each.variant)}"
        for each in shown
    }
    highs = dict.fromkeys(_high(each) for each in shown if _high(each) in each.quantiles_s)
    return (
        *(Key(colour=fill, shape="line", name=name) for fill, name in names.items()),
        Key(colour="var(--ink-2)", shape="dot", name="median"),
        *(Key(colour="var(--ink-2)", shape="ring", name=f"{name[1:]}th percentile") for name in highs),
    )


def _high(each: Latency) -> str:
    return "p99" if "p99" in each.quantiles_s else "p90"


def _records(own: Sequence[Latency]) -> Iterator[dict[str, Any]]:
    for each in own:
        if each.scenario == SERVER and each.requests < each.planned:
            continue
        for name in ("p50", _high(each)):
            if name in each.quantiles_s:
                yield {
                    "x": each.rate_per_s or each.batch_size,
                    "y": each.quantiles_s[name] * 1e3,
                    "colour": line_colour(each.device, each.variant),
                    "quantile": name,
                    "line": f"{device_name(each.device)} {variant_name(each.variant)} {name}",
                    "text": numbers.duration(each.quantiles_s[name]),
                }


def _panel(title: str, scenario: str, own: Sequence[Latency]) -> Panel:
    """Draw one panel on logarithmic axes: lines over batch sizes, points over rates, which differ by trial."""
    single = scenario == SINGLE_STREAM
    what = "batch size" if single else "requests offered a second"
    scale = alt.Scale(type="log", base=2 if single else 10, nice=False, padding=12)
    x = alt.X("x:Q", scale=scale, axis=alt.Axis(title=what, grid=False, format="~s", tickCount=6))
    y = alt.Y("y:Q", scale=alt.Scale(type="log"), axis=labels_axis(_LABELS_PX, tickCount=3, format="~s"))
    base = alt.Chart(rows(list(_records(own)))).encode(x=x, y=y, stroke=alt.Stroke("colour:N", scale=None))
    fill = alt.condition(
        "datum.quantile == 'p50'", alt.Fill("colour:N", scale=None), alt.value("var(--paper)")
    )
    tooltip = [alt.Tooltip("line:N"), alt.Tooltip("x:Q", title=what, format=".4~g"), alt.Tooltip("text:N")]
    points = base.mark_point(size=34, strokeWidth=1.5).encode(fill=fill, tooltip=tooltip)
    lines = [base.mark_line(strokeWidth=1.6).encode(detail=alt.Detail("line:N"))] if single else []
    heading = f"{title}: latency of {'a request' if single else 'requests'}, ms"
    return panel(*lines, points, heading=heading, labels_px=_LABELS_PX, height_px=_PANEL_PX)
