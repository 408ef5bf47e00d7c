"""Chart of request latency over throughput, from the median to the 99th percentile."""

from __future__ import annotations

import altair as alt

from harness.model.analysis import Analysis, Latency
from reports import numbers
from reports.charts import COLOUR, Figure, Key, device_colour, panel, records_table, rows, stacked
from reports.names import devices_of, titles_of, variant_name
from workloads.protocol import TUNED

_LABELS_PX, _HEIGHT_PX = 46, 180


def latency_figure(analysis: Analysis) -> Figure | None:
    """Draw each batch size and each offered rate; None if no requests were timed."""
    devices, panels = devices_of(analysis), {}
    for workload, title in titles_of(analysis).items():
        shown = [each for each in analysis.latencies if each.workload == workload]
        if shown:
            panels[title] = [_record(each, devices[each.device]) for each in shown]
    if not panels:
        return None
    x = alt.X(
        "rate:Q",
        scale=alt.Scale(type="log", padding=12),
        axis=alt.Axis(title="samples/s", format="~s", grid=False),
    )
    y = alt.Y(
        "high:Q",
        scale=alt.Scale(type="log", padding=8),
        axis=alt.Axis(title="ms, p50 to p99", format="~g", tickCount=3, minExtent=_LABELS_PX),
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("where", "what", "p50", "p99")]
    drawn = []
    for heading, records in panels.items():
        base = alt.Chart(rows(records)).encode(x=x, y=y, color=COLOUR)
        spans = base.mark_rule(strokeWidth=1.5).encode(y2="low:Q")
        points = base.mark_point(size=50, opacity=0.85).encode(
            fill=alt.Fill("fill:N", scale=None), shape=alt.Shape("shape:N", scale=None), tooltip=tooltip
        )
        drawn.append(panel(spans, points, heading=heading, height=_HEIGHT_PX))
    variants = dict.fromkeys(each.variant for each in analysis.latencies if each.variant != TUNED)
    names = {"square": ", ".join(map(variant_name, variants)), "dot": variant_name(TUNED)}
    return Figure(
        id="figure-latency",
        title="Latency of requests over throughput: sequential batches (filled) and offered rates (open)",
        spec=stacked(drawn, labels_px=_LABELS_PX, spacing=64),
        table=records_table(
            panels,
            {
                "Workload, device, variant": "where", "Requests": "what", "Served": "served",
                "p50": "p50", "p90": "p90", "p99": "p99", "Number": "number",
            },
        ),
        reserve_px=_LABELS_PX + 20,
        legend=tuple(Key(colour="var(--ink-2)", shape=shape, name=name) for shape, name in names.items()),
    )  # fmt: skip


def _record(each: Latency, device: str) -> dict[str, str | float]:
    quantiles = each.quantiles_s
    texts = {
        name: numbers.duration(quantiles[name]) if name in quantiles else "" for name in ("p50", "p90", "p99")
    }
    low, high = (1e3 * quantiles[name] for name in ("p50", "p99" if "p99" in quantiles else "p50"))
    offered = each.rate_per_s is not None
    number = f"{each.requests} of {each.planned}" if each.requests < each.planned else str(each.requests)
    return {
        "where": f"{each.workload}, {device}, {variant_name(each.variant)}",
        "what": f"{numbers.number(each.rate_per_s)}/s offered" if offered else f"batch of {each.batch_size}",
        "rate": each.samples_per_s.median,
        "served": numbers.speed(each.samples_per_s),
        "low": low,
        "high": high,
        "number": number,
        "shape": "circle" if each.variant == TUNED else "square",
        "colour": device_colour(each.device),
        "fill": "transparent" if offered else device_colour(each.device),
        **texts,
    }
