"""Figures of training over several workers: speed and efficiency by their number, traffic through time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.analysis import Estimate
from harness.model.scaling import Flow, Point, Scaling
from harness.rounding import counted
from reports import numbers
from reports.bars import Bar, bar_panels, colour, panel_title
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, variant_name

_FLOW_PX = 96
_ROOM_PX = 52
_SPACING_PX = 30
_LINES = 8  # colours that there are


def together_figures(scaling: Scaling | None, titles: Mapping[str, str]) -> Iterator[Figure]:
    """Build the figures of training over several numbers of workers; none where there was none."""
    if scaling is None or not scaling.points:
        return
    yield _speed(scaling, titles)
    if any(point.efficiency for point in scaling.points):
        yield _efficiency(scaling, titles)
    if scaling.flows:
        yield _traffic(scaling, titles)


def _speed(scaling: Scaling, titles: Mapping[str, str]) -> Figure:
    groups = [
        (name, [_bar(point, point.throughput, numbers.estimate(point.throughput)) for point in points])
        for name, points in _groups(scaling, titles)
    ]
    panels, room_px = bar_panels(groups, unit="samples/s")
    return Figure(
        id="figure-together",
        title="Speed of all workers together, samples per second",
        description="Bars of throughput by the number of workers, with 95 % intervals, for each workload, "
        "device and variant.",
        spec=chart(panels, spacing=_SPACING_PX),
        table=Table(
            header=("What", "Workers", "samples/s", "95 % interval", "Trials"),
            rows=tuple(
                (name, str(one.workers), numbers.estimate(one.throughput), numbers.interval(one.throughput),
                 str(one.throughput.n))
                for name, points in _groups(scaling, titles) for one in points
            ),
        ),
        reserve_px=room_px + 4,
        rank=-2,
    )  # fmt: skip


def _efficiency(scaling: Scaling, titles: Mapping[str, str]) -> Figure:
    groups = [
        (name, [_bar(one, one.efficiency, numbers.percent(one.efficiency.median))
                for one in points if one.efficiency])
        for name, points in _groups(scaling, titles)
    ]  # fmt: skip
    panels, room_px = bar_panels([group for group in groups if group[1]], unit="of n times one worker")
    return Figure(
        id="figure-efficiency",
        title="Efficiency: speed over that of one worker times their number",
        description="Bars of efficiency by the number of workers, with 95 % intervals; 100 % would mean that "
        "every worker added the speed of one alone.",
        spec=chart(panels, spacing=_SPACING_PX),
        table=Table(
            header=("What", "Workers", "Efficiency", "95 % interval"),
            rows=tuple(
                (name, str(one.workers), numbers.percent(one.efficiency.median),
                 share_interval(one.efficiency))
                for name, points in _groups(scaling, titles) for one in points if one.efficiency
            ),
        ),
        reserve_px=room_px + 4,
        rank=-1,
    )  # fmt: skip


def share_interval(value: Estimate) -> str:
    """Write the 95 % interval of a share in percent."""
    if not value.n > 1:
        return "one trial"
    return f"{numbers.percent(value.low)} to {numbers.percent(value.high)}"


def _groups(scaling: Scaling, titles: Mapping[str, str]) -> list[tuple[str, list[Point]]]:
    found: dict[str, list[Point]] = {}
    for one in scaling.points:
        title = titles.get(one.workload, one.workload)
        name = f"{title}: {device_name(one.device)} {variant_name(one.variant)}"
        found.setdefault(name, []).append(one)
    return list(found.items())


def _bar(point: Point, value: Estimate, text: str) -> Bar:
    whiskers = value.n > 1
    return Bar(
        label=counted(point.workers, "worker"),
        value=value.median,
        text=text,
        source=f"{value.n} trials" if whiskers else "one trial",
        interval=numbers.interval(value),
        low=value.low if whiskers else None,
        high=value.high if whiskers else None,
        colour=colour(point.device, point.variant),
    )


def _traffic(scaling: Scaling, titles: Mapping[str, str]) -> Figure:
    machines = list(dict.fromkeys(line.nodes for flow in scaling.flows for line in flow.lines))
    colours = {nodes: f"var(--gpu-{number % _LINES})" for number, nodes in enumerate(machines)}
    spans = dict.fromkeys(variant for flow in scaling.flows for variant, _, _ in flow.spans)
    return Figure(
        id="figure-traffic",
        title="Sent through time by each machine, all interfaces, bytes per second",
        description="Lines of the bytes a second that left each machine in one trial over the most workers; "
        "the shaded stretches are the measured windows.",
        spec=chart([_flow_panel(flow, titles, colours) for flow in scaling.flows], spacing=26),
        table=Table(
            header=("What", "Workers' nodes", "Variant", "Sent a second, a worker", "Received"),
            rows=tuple(_traffic_rows(scaling, titles)),
        ),
        reserve_px=_ROOM_PX + 6,
        rank=2,
        legend=(
            *(Key(colour=colours[nodes], shape="line", name=", ".join(nodes)) for nodes in machines),
            *(
                Key(colour=colour("cpu", variant), shape="bar", name=f"{variant_name(variant)}, measured")
                for variant in spans
            ),
        ),
    )


def _traffic_rows(scaling: Scaling, titles: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for name, points in _groups(scaling, titles):
        for one in points:
            for each in one.traffic:
                what = f"{name}, {counted(one.workers, 'worker')}"
                yield (what, ", ".join(each.nodes), variant_name(one.variant), rate(each.sent_bytes_per_s),
                       rate(each.received_bytes_per_s))  # fmt: skip


def rate(bytes_per_s: float | None) -> str:
    """Write bytes a second, "–" where nobody counted."""
    return "–" if bytes_per_s is None else f"{numbers.size(bytes_per_s)}/s"


def _flow_panel(
    flow: Flow, titles: Mapping[str, str], colours: Mapping[tuple[str, ...], str]
) -> dict[str, Any]:
    x = {
        "field": "t", "type": "quantitative",
        "scale": {"domain": [0, max(end for _, _, end in flow.spans)], "nice": False},
        "axis": {"title": "seconds since the first measured window", "grid": False, "tickCount": 6},
    }  # fmt: skip
    y = {
        "field": "v", "type": "quantitative", "title": None, "scale": {"zero": True, "nice": True},
        "axis": {"tickCount": 3, "minExtent": _ROOM_PX, "maxExtent": _ROOM_PX, "format": "~s"},
    }  # fmt: skip
    spans = [
        {"t": begin, "end": end, "c": colour("cpu", variant), "what": variant_name(variant)}
        for variant, begin, end in flow.spans
    ]  # fmt: skip
    rows = [
        {"t": round(t, 3), "v": round(v), "c": colours[line.nodes], "who": ", ".join(line.nodes),
         "text": rate(v), "when": f"{t:.1f} s"}
        for line in flow.lines
        for t, v in zip(flow.t_s, line.sent_bytes_per_s, strict=True)
    ]  # fmt: skip
    paint = {"field": "c", "type": "nominal", "scale": None}
    tooltip = [
        {"field": name, "title": title, "type": "nominal"}
        for name, title in (("who", "nodes"), ("when", "at"), ("text", "sent"))
    ]
    layers = [
        {
            "data": {"values": spans},
            "mark": {"type": "rect", "opacity": 0.4},
            "encoding": {"x": x, "x2": {"field": "end"}, "fill": paint,
                         "tooltip": [{"field": "what", "title": "measured", "type": "nominal"}]},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "line", "interpolate": "step"},
            "encoding": {"x": x, "y": y, "stroke": paint, "detail": {"field": "who"}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "size": 60, "opacity": 0},
            "encoding": {"x": x, "y": y, "tooltip": tooltip},
        },
    ]  # fmt: skip
    workload = titles.get(flow.workload, flow.workload)
    title = f"{workload}: {device_name(flow.device)}, {counted(flow.workers, 'worker')}"
    return {"title": panel_title(title, _ROOM_PX), "height": _FLOW_PX, "layer": layers}
