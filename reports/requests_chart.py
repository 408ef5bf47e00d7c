"""Latency of requests: one after the other at each batch size, drawn; at each offered rate, in the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.analysis import Analysis, Latency
from reports import numbers
from reports.charts import Figure, Table, device_colour, dot_plot
from reports.names import devices_of, titles_of, variant_name
from workloads.protocol import BASELINE, SERVER, TUNED

_NAMES = ("p50", "p90", "p99")


def requests_figure(analysis: Analysis) -> Figure | None:
    """Draw the latency of single requests; None where none was measured."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for each in analysis.latencies:
        if each.scenario != SERVER and each.variant in (BASELINE, TUNED):
            heading = f"{titles[each.workload]}: latency of a request, ms"
            panels.setdefault(heading, []).append(_record(each, devices[each.device]))
    if not panels:
        return None
    header = ("Workload, device, variant", "Requests", "Served, samples/s", *_NAMES, "Served of planned")
    cells = (
        (
            f"{titles[each.workload]}, {devices[each.device]}, {variant_name(each.variant)}",
            f"batch {each.batch_size}" if each.rate_per_s is None else f"{numbers.number(each.rate_per_s)}/s offered",
            numbers.speed(each.samples_per_s),
            *(_quantile(each, name) for name in _NAMES),
            f"{each.requests} of {each.planned}",
        )
        for each in analysis.latencies
    )  # fmt: skip
    return dot_plot(
        "figure-requests",
        "Latency by batch size: median, with a line up to the 99th percentile",
        panels,
        table=Table(header=header, rows=tuple(cells)),
        labels_px=170,
        text_px=180,
    )


def _record(each: Latency, device: str) -> dict[str, Any]:
    high = next(name for name in reversed(_NAMES) if name in each.quantiles_s)
    median_ms = each.quantiles_s["p50"] * 1e3
    return {
        "row": f"{device} {variant_name(each.variant)}, batch {each.batch_size}",
        "value": median_ms,
        "low": median_ms,
        "high": each.quantiles_s[high] * 1e3,
        "text": f"{_quantile(each, 'p50')}, {high} {_quantile(each, high)}",
        "name": numbers.speed(each.samples_per_s),
        "colour": device_colour(each.device),
    }


def _quantile(each: Latency, name: str) -> str:
    return numbers.duration(each.quantiles_s[name]) if name in each.quantiles_s else numbers.MISSING
