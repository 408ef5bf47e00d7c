"""Latency of requests: one after the other at each batch size, drawn; at each offered rate, in the table."""

from __future__ import annotations

from harness.model.analysis import Analysis, Latency
from reports import charts, numbers
from reports.names import devices_of, titles_of, variant_name
from workloads.protocol import BASELINE, SERVER, TUNED

_LABELS_PX = 170
_TEXT_PX = 180
_ROW_PX = 16
_NAMES = ("p50", "p90", "p99")


def requests_figure(analysis: Analysis) -> charts.Figure | None:
    """Draw the latency of single requests; None where none was measured."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    groups: dict[str, list[Latency]] = {}
    for each in analysis.latencies:
        if each.scenario != SERVER and each.variant in (BASELINE, TUNED):
            groups.setdefault(each.workload, []).append(each)
    if not groups:
        return None
    panels = []
    for workload, own in groups.items():
        records = [
            {
                "row": f"{devices[each.device]} {variant_name(each.variant)}, batch {each.batch_size}",
                "value": each.quantiles_s["p50"] * 1e3,
                "low": each.quantiles_s["p50"] * 1e3,
                "high": each.quantiles_s[_high(each)] * 1e3,
                "text": f"{_quantile(each, 'p50')}, {_high(each)} {_quantile(each, _high(each))}",
                "name": numbers.speed(each.samples_per_s),
                "colour": charts.device_colour(each.device),
            }
            for each in own
        ]
        x = charts.speed_axis(each.quantiles_s[name] * 1e3 for each in own for name in ("p50", _high(each)))
        heading = f"{titles[workload]}: latency of a request, ms"
        panels.append(charts.measured(records, x, heading=heading, labels_px=_LABELS_PX, row_px=_ROW_PX))
    return charts.Figure(
        id="figure-requests",
        title="Latency by batch size, median and 99th percentile",
        description="A dot at the median of latency, a line up to the 99th percentile, or to the 90th or the median "
        "itself where requests were too few, on a logarithmic axis.",
        spec=charts.stacked(panels, spacing=44),
        table=charts.Table(
            header=(
                "Workload, device, variant",
                "Requests",
                "Served, samples/s",
                *_NAMES,
                "Served of planned",
            ),
            rows=tuple(
                (
                    f"{titles[each.workload]}, {devices[each.device]}, {variant_name(each.variant)}",
                    f"batch {each.batch_size}"
                    if each.rate_per_s is None
                    else f"{numbers.number(each.rate_per_s)}/s offered",
                    numbers.speed(each.samples_per_s),
                    *(_quantile(each, name) for name in _NAMES),
                    f"{each.requests} of {each.planned}",
                )
                for each in analysis.latencies
            ),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
    )


def _high(each: Latency) -> str:
    return next(name for name in reversed(_NAMES) if name in each.quantiles_s)


def _quantile(each: Latency, name: str) -> str:
    return numbers.duration(each.quantiles_s[name]) if name in each.quantiles_s else numbers.MISSING
