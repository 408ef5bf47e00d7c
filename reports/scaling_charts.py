"""Figures of training over several workers: speed by their number, and what machines send through time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from harness.model.scaling import Flow, Point, Scaling
from harness.rounding import counted
from reports import numbers
from reports.charts import Figure, Key, Table, labels_axis, layered, rows, stacked, title
from reports.names import device_name, is_gpu, variant_name
from reports.palette import gpu_colour

_LABELS_PX = 90
_TEXT_PX = 170
_ROW_PX = 22
_FLOW_PX = 96
_AXIS_PX = 52


def scaling_figures(scaling: Scaling) -> Iterator[Figure]:
    """Build the figures of training over several numbers of workers; none where nothing was measured."""
    if scaling.points:
        yield _speeds(scaling)
    if scaling.flows:
        yield _traffic(scaling)


def _speeds(scaling: Scaling) -> Figure:
    groups: dict[str, list[Point]] = {}
    for point in scaling.points:
        groups.setdefault(_what(point), []).append(point)
    return Figure(
        id="figure-scaling",
        title="Speed of all workers together",
        description="Bars of samples a second by the number of workers, with 95 % intervals; a tick marks that many "
        "times one worker's speed.",
        spec=stacked([_panel(name, points) for name, points in groups.items()], spacing=24),
        table=Table(
            header=("What", "Workers", "Speed", "95 % interval", "Efficiency"),
            rows=tuple(
                (name, str(each.workers), numbers.speed(each.throughput), numbers.interval(each.throughput),
                 numbers.percent(each.efficiency.median if each.efficiency else None))
                for name, points in groups.items() for each in points
            ),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
        rank=-2,
    )  # fmt: skip


def _what(point: Point | Flow) -> str:
    variant = f", {variant_name(point.variant)}" if isinstance(point, Point) else ""
    return f"{point.workload}, {device_name(point.device)}{variant}"


def _panel(heading: str, points: Sequence[Point]) -> alt.LayerChart:
    records = [_record(each, points[0]) for each in points]
    base = alt.Chart(rows(records)).encode(
        y=alt.Y("row:N", sort=[record["row"] for record in records], axis=labels_axis(_LABELS_PX))
    )
    x = alt.X("value:Q", axis=None)
    return layered(
        base.mark_bar(height=_ROW_PX - 9).encode(
            x=x, color=alt.Color("colour:N", scale=None), tooltip=["text:N"]
        ),
        base.mark_rule(stroke="var(--ink)", strokeWidth=1.5).encode(x="low:Q", x2="high:Q"),
        base.mark_tick(stroke="var(--ink-2)", thickness=2, height=_ROW_PX - 6).encode(x="ideal:Q"),
        base.mark_text(align="left", baseline="middle", dx=8).encode(x=alt.value("width"), text="text:N"),
        heading=heading,
        labels_px=_LABELS_PX,
        row_px=_ROW_PX,
    )


def _record(point: Point, first: Point) -> dict[str, Any]:
    efficiency = (
        f", {numbers.percent(point.efficiency.median)}" if point.efficiency and point.workers > 1 else ""
    )
    return {
        "row": counted(point.workers, "worker"),
        "value": point.throughput.median,
        "low": point.throughput.low,
        "high": point.throughput.high,
        "ideal": first.throughput.median * point.workers / first.workers,
        "text": f"{numbers.speed(point.throughput)}{efficiency}",
        "colour": "var(--gpu)" if is_gpu(point.device) else "var(--cpu)",
    }


def _traffic(scaling: Scaling) -> Figure:
    machines = list(dict.fromkeys(line.nodes for flow in scaling.flows for line in flow.lines))
    return Figure(
        id="figure-traffic",
        title="Sent by each machine, bytes per second",
        description="Lines of the bytes a second that left each machine in one trial over the most workers; "
        "the shaded stretches are the measured windows.",
        spec=stacked([_flow(flow, machines) for flow in scaling.flows], spacing=26),
        table=Table(
            header=("What", "Workers", "Nodes", "Sent, a worker", "Received, a worker"),
            rows=tuple(
                (_what(point), str(point.workers), ", ".join(each.nodes), rate(each.sent_bytes_per_s),
                 rate(each.received_bytes_per_s))
                for point in scaling.points for each in point.traffic
            ),
        ),
        reserve_px=_AXIS_PX + 6,
        rank=2,
        legend=(
            *(
                Key(colour=gpu_colour(place), shape="line", name=", ".join(nodes))
                for place, nodes in enumerate(machines)
            ),
            Key(colour="var(--phase-measured)", shape="bar", name="measured"),
        ),
    )  # fmt: skip


def rate(bytes_per_s: float | None) -> str:
    """Write bytes a second."""
    return numbers.MISSING if bytes_per_s is None else f"{numbers.size(bytes_per_s)}/s"


def _flow(flow: Flow, machines: Sequence[tuple[str, ...]]) -> alt.LayerChart:
    records = [
        {"t": round(t, 3), "v": round(v), "colour": gpu_colour(machines.index(line.nodes)),
         "nodes": ", ".join(line.nodes), "sent": rate(v)}
        for line in flow.lines
        for t, v in zip(flow.t_s, line.sent_bytes_per_s, strict=True)
    ]  # fmt: skip
    spans = [{"t": begin, "end": end, "what": variant_name(variant)} for variant, begin, end in flow.spans]
    scale = alt.Scale(domain=[0, max(end for _, _, end in flow.spans)], nice=False)
    x = alt.X("t:Q", scale=scale, axis=alt.Axis(title="seconds since the first measured window", grid=False))
    y = alt.Y(
        "v:Q", axis=alt.Axis(title=None, tickCount=3, minExtent=_AXIS_PX, maxExtent=_AXIS_PX, format="~s")
    )
    measured = alt.Chart(rows(spans)).mark_rect(fill="var(--phase-measured)", stroke="var(--paper)")
    lines = alt.Chart(rows(records)).mark_line(interpolate="step")
    layers = [
        measured.encode(x=x, x2="end:Q", tooltip=["what:N"]),
        lines.encode(x=x, y=y, color=alt.Color("colour:N", scale=None), detail="nodes:N",
                     tooltip=["nodes:N", "t:Q", "sent:N"]),
    ]  # fmt: skip
    heading = f"{_what(flow)}, {counted(flow.workers, 'worker')}"
    return alt.LayerChart(layer=layers).properties(height=_FLOW_PX, title=title(heading, _AXIS_PX))
