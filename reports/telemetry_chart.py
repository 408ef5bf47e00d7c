"""Telemetry of one trial, panel under panel on one time axis, shaded by phase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Gpu, Series, Trial
from harness.run.thinning import thin
from reports import numbers
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, is_gpu, variant_name
from reports.palette import DASHES, gpu_colour
from reports.phases import MEASURED, Band, bands, measured_span, throttled

Floats = NDArray[np.float64]

_AXIS_PX = 46
_PANEL_PX = 62
_RIBBON_PX = 14
_SPACING_PX = 30  # room for a panel's title
_CELLS = 160  # stretches that the crosshair reads
_STILL_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One quantity through time.

    Attributes:
        metrics: names in order of preference; of each device the first that was read is drawn.
        sources: which sources count; () is any.
        only: "cpu" or "gpu" to leave the panel out of the other kind's trials.
        scale: what values are multiplied by to come in `unit`.
        top: the axis' upper end where it is known; without one the axis holds what was read.
        zero: whether the axis begins at zero.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    sources: tuple[str, ...] = ()
    only: str = ""
    scale: float = 1.0
    decimals: int = 0
    top: float | None = None
    zero: bool = True


PANELS = (
    Panel(title="GPU utilisation", unit="%", metrics=("gpu_util_pct",), top=100),
    Panel(title="SM activity", unit="%", metrics=("sm_util_pct",), decimals=1, top=100),
    Panel(title="GPU power", unit="W", metrics=("power_instant_w", "power_usage_w", "power_average_w")),
    Panel(title="GPU temperature", unit="°C", metrics=("temperature_c",), zero=False),
    Panel(title="CPU busy", unit="%", metrics=("cpu_util_pct",), sources=("host",), decimals=1, top=100),
    Panel(title="CPU clock", unit="MHz", metrics=("cpu_freq_mhz",), only="cpu", zero=False),
    Panel(title="Container memory", unit="GiB", metrics=("mem_used_bytes",), sources=("cgroup",), only="cpu",
          scale=2.0**-30, decimals=2),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One device's readings in one panel: seconds since the trial began, values in the panel's unit."""

    panel: Panel
    device: str
    t_s: Floats
    values: Floats


def lines(trial: Trial) -> tuple[Line, ...]:
    """Return what each panel draws of each device, in the panels' order."""
    kind = "gpu" if is_gpu(trial.device) else "cpu"
    return tuple(line for panel in PANELS if panel.only in ("", kind) for line in _panel_lines(trial, panel))


def _panel_lines(trial: Trial, panel: Panel) -> Iterator[Line]:
    for device in dict.fromkeys(series.device for series in trial.telemetry):
        for metric in panel.metrics:
            series = _finest(trial, device, metric, panel.sources)
            if series is not None:
                t_s = (series.t_ns - trial.started_ns) / 1e9
                yield Line(panel=panel, device=device, t_s=t_s, values=series.columns[metric] * panel.scale)
                break


def _finest(trial: Trial, device: str, metric: str, sources: tuple[str, ...]) -> Series | None:
    candidates = [
        series
        for series in trial.telemetry
        if series.device == device
        and (not sources or series.source in sources)
        and metric in series.columns
        and np.isfinite(series.columns[metric]).any()
    ]
    return max(candidates, key=lambda series: len(series.t_ns), default=None)


def telemetry_figure(
    trial: Trial, *, number: int, title: str, points: int, gpus: Sequence[Gpu]
) -> Figure | None:
    """Draw one trial through time, at most `points` instants a line; None without telemetry.

    Args:
        gpus: of the manifest, for their power limits.
    """
    drawn = lines(trial)
    if not drawn:
        return None
    shaded = bands(trial)
    extent = max((trial.ended_ns - trial.started_ns) / 1e9, *(float(line.t_s[-1]) for line in drawn))
    drawing = _Drawing(
        trial, drawn, shaded, extent, [gpus[index].power_limit_w for index in _indices(trial, gpus)]
    )
    return Figure(
        id=f"figure-telemetry-{number}",
        title=title,
        description="Telemetry through time: "
        + ", ".join(dict.fromkeys(line.panel.title for line in drawn))
        + ". It opens on the measured windows. The table below has least, mean and greatest values.",
        spec=drawing.spec(points, interactive=True),
        still_spec=drawing.spec(min(points, _STILL_POINTS), interactive=False),
        table=_table(drawn, shaded),
        reserve_px=_AXIS_PX + 4,
        rank=10 + number,
        legend=_legend(drawn, shaded, drawing.held),
        extent_s=extent,
        opens_s=measured_span(shaded),
    )


def _indices(trial: Trial, gpus: Sequence[Gpu]) -> Iterator[int]:
    for part in trial.device.split("+"):
        index = part.removeprefix("gpu")
        if index.isdecimal() and int(index) < len(gpus):
            yield int(index)


class _Drawing:
    """The specification of one figure, with or without what a pointer can do."""

    def __init__(
        self,
        trial: Trial,
        drawn: tuple[Line, ...],
        shaded: tuple[Band, ...],
        extent_s: float,
        limits_w: Sequence[float | None],
    ) -> None:
        self._lines = drawn
        self._bands = shaded
        self._extent_s = extent_s
        self._limits_w = [limit for limit in limits_w if limit is not None]
        self._panels = tuple(dict.fromkeys(line.panel for line in drawn))
        self.held = list(throttled(trial))

    def spec(self, points: int, *, interactive: bool) -> dict[str, Any]:
        span = self._span(interactive)
        panels = [self._ribbon()]
        panels += [self._panel(number, points, span, interactive) for number in range(len(self._panels))]
        params = [
            {
                "name": "zoom", "bind": "scales",
                "views": [f"lines{number}" for number in range(len(self._panels))],
                "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"},
            },
            {
                "name": "hover", "views": [f"cells{number}" for number in range(len(self._panels))],
                "select": {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"},
            },
        ]  # fmt: skip
        datasets = {
            "bands": [_band(band) for band in self._bands],
            "held": [_held(each) for each in self.held],
        }
        more = {"params": params} if interactive else {}
        return chart(panels, spacing=_SPACING_PX, datasets=datasets, **more)

    def _span(self, interactive: bool) -> tuple[float, float]:
        """Return what the axis shows: all where a reader can zoom, the measured windows on paper."""
        measured = measured_span(self._bands)
        return (0.0, self._extent_s) if interactive or measured is None else measured

    def _x(self, span: tuple[float, float], **more: Any) -> dict[str, Any]:
        domain = [round(second, 2) for second in span]
        return {"type": "quantitative", "scale": {"domain": domain, "nice": False}, **more}

    def _ribbon(self) -> dict[str, Any]:
        """Draw the phases of the whole trial, whatever stretch of it the panels show."""
        tooltip = [
            {"field": "what", "title": "phase", "type": "nominal"},
            {"field": "long", "title": "lasted", "type": "nominal"},
        ]
        ribbon = {
            "data": {"name": "bands"},
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": self._x((0.0, self._extent_s), field="a", axis=None), "x2": {"field": "b"},
                "fill": {"field": "c", "type": "nominal", "scale": None}, "tooltip": tooltip,
            },
        }  # fmt: skip
        return {"title": {"text": "Whole trial", "dx": -_AXIS_PX}, "height": _RIBBON_PX, "layer": [ribbon]}

    def _panel(
        self, number: int, points: int, span: tuple[float, float], interactive: bool
    ) -> dict[str, Any]:
        panel = self._panels[number]
        own = [line for line in self._lines if line.panel == panel]
        last = number == len(self._panels) - 1
        axis = {
            "title": "seconds since the container started" if last else None,
            "labels": last,
            "grid": False,
        }
        x = self._x(span, field="t", axis={**axis, "ticks": last})
        limit = max(self._limits_w, default=None) if panel.unit == "W" else None
        y = {"field": "v", "type": "quantitative", "scale": _scale(panel, own, limit), "axis": _AXIS}
        layers: list[dict[str, Any]] = [
            _rects("bands", x, {"field": "c", "type": "nominal", "scale": None}, opacity=0.45),
            {
                "name": f"lines{number}",
                "data": {"values": [_record(line, points) for line in own]},
                "transform": [{"flatten": ["t", "v"]}],
                "mark": {"type": "line", "clip": True},
                "encoding": {
                    "x": x, "y": y, "detail": {"field": "d"},
                    "stroke": {"field": "c", "type": "nominal", "scale": None},
                    "strokeDash": {"field": "dash", "type": "nominal", "scale": None},
                },
            },
        ]  # fmt: skip
        if limit is not None:
            layers.append(
                {
                    "data": {"values": [{"v": limit}]},
                    "mark": {"type": "rule", "stroke": "var(--alert)", "strokeDash": [4, 3]},
                    "encoding": {"y": y},
                }
            )
        if self.held and panel.unit == "W":
            layers.append(_rects("held", x, {"value": "var(--alert)"}, y=0, y2=5))
        if number == 0:
            layers.append(_names(x))
        if interactive:
            layers += _crosshair(number, own, x, self._extent_s)
        heading = {"text": f"{panel.title}, {panel.unit}", "dx": -_AXIS_PX}
        return {"title": heading, "height": _PANEL_PX, "layer": layers}


_AXIS = {
    "title": None,
    "tickCount": 3,
    "minExtent": _AXIS_PX,
    "maxExtent": _AXIS_PX,
    "ticks": False,
    "format": "~r",
}


def _scale(panel: Panel, own: Sequence[Line], limit: float | None) -> dict[str, Any]:
    if panel.top is not None:
        return {"domain": [0, panel.top], "nice": False}
    low = min(float(np.nanmin(line.values)) for line in own)
    high = max(float(np.nanmax(line.values)) for line in own)
    if panel.zero:
        return {"domain": [0, max(high, limit or 0.0) * 1.05], "nice": False}
    margin = max((high - low) * 0.1, 1.0)
    return {"domain": [low - margin, high + margin], "nice": True, "zero": False}


def _record(line: Line, points: int) -> dict[str, Any]:
    t_s, columns = thin(line.t_s, {"v": line.values}, points)
    values = np.round(columns["v"], line.panel.decimals).tolist()
    index = line.device.removeprefix("gpu")
    own = int(index) if index.isdecimal() else None
    return {
        "d": line.device,
        "c": "var(--cpu)" if own is None else gpu_colour(own),
        "dash": list(DASHES[0] if own is None else DASHES[own % len(DASHES)]),
        "t": np.round(t_s, 2).tolist(),
        "v": [None if math.isnan(value) else value for value in values],
    }


def _rects(data: str, x: dict[str, Any], fill: dict[str, Any], **mark: Any) -> dict[str, Any]:
    return {
        "data": {"name": data},
        "mark": {"type": "rect", "clip": True, **mark},
        "encoding": {"x": {**x, "field": "a"}, "x2": {"field": "b"}, "fill": fill},
    }


def _names(x: dict[str, Any]) -> dict[str, Any]:
    """Name the variants over their measured stretches, cut off where these are narrow."""
    text = {
        "type": "text",
        "align": "left",
        "baseline": "top",
        "dx": 3,
        "dy": 2,
        "fontSize": 10,
        "clip": True,
        # The panel under the ribbon is the second of the concatenation.
        "limit": {"expr": "max(1, scale('concat_1_x', datum.b) - scale('concat_1_x', datum.a) - 6)"},
    }
    return {
        "data": {"name": "bands"},
        "transform": [{"filter": "datum.name"}],
        "mark": text,
        "encoding": {"x": {**x, "field": "a"}, "y": {"value": 0}, "text": {"field": "name"}},
    }


def _crosshair(
    number: int, own: Sequence[Line], x: dict[str, Any], extent_s: float
) -> Iterator[dict[str, Any]]:
    """Yield cells that the pointer picks in any panel, and the reading of that stretch in this one."""
    cells = {"values": list(_cells(own, extent_s))}
    picked = {"param": "hover", "empty": False}
    yield {
        "name": f"cells{number}",
        "data": cells,
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": x, "x2": {"field": "end"},
            "fill": {"value": "transparent", "condition": {**picked, "value": "var(--ink)"}},
            "fillOpacity": {"value": 0.18},
        },
    }  # fmt: skip
    yield {
        "data": cells,
        "transform": [{"filter": picked}],
        "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3, "fontWeight": 600},
        "encoding": {"x": {"value": "width"}, "y": {"value": 0}, "text": {"field": "text"}},
    }


def _cells(own: Sequence[Line], extent_s: float) -> Iterator[dict[str, Any]]:
    step = extent_s / _CELLS
    for number in range(_CELLS):
        start = number * step
        texts = []
        for line in own:
            inside = line.values[(line.t_s >= start) & (line.t_s < start + step)]
            inside = inside[np.isfinite(inside)]
            if len(inside):
                low, high = (
                    round(float(value), line.panel.decimals) for value in (inside.min(), inside.max())
                )
                name = f"{device_name(line.device)} " if len(own) > 1 else ""
                texts.append(f"{name}{low:g}{f' to {high:g}' if high > low else ''}")
        if texts:
            at = f"{start:.1f} s: {', '.join(texts)} {own[0].panel.unit}"
            yield {"t": round(start, 3), "end": round(start + step, 3), "text": at}


def _band(band: Band) -> dict[str, Any]:
    return {
        "a": round(band.start_s, 2), "b": round(band.end_s, 2), "c": band.colour, "what": band.label,
        "long": numbers.duration(band.end_s - band.start_s),
        "name": variant_name(band.variant) if band.kind == MEASURED else "",
    }  # fmt: skip


def _held(each: tuple[float, float, str]) -> Mapping[str, Any]:
    start, end, why = each
    return {"a": round(start, 2), "b": round(end, 2), "what": why}


def _legend(
    drawn: Sequence[Line], shaded: Sequence[Band], held: Sequence[tuple[float, float, str]]
) -> tuple[Key, ...]:
    gpus = list(dict.fromkeys(line.device for line in drawn if is_gpu(line.device)))
    keys = [
        Key(colour=gpu_colour(int(gpu.removeprefix("gpu"))), shape="line", name=device_name(gpu))
        for gpu in gpus
        if len(gpus) > 1 and gpu.removeprefix("gpu").isdecimal()
    ]
    kinds = dict.fromkeys((band.kind, band.colour) for band in shaded)
    keys += [Key(colour=colour, shape="bar", name=kind) for kind, colour in kinds]
    if any(line.panel.unit == "W" for line in drawn):
        keys.append(Key(colour="var(--alert)", shape="dash", name="power limit"))
    if held:
        keys.append(Key(colour="var(--alert)", shape="bar", name="throttled"))
    return tuple(keys)


def _table(drawn: Sequence[Line], shaded: Sequence[Band]) -> Table:
    rows = []
    for line in drawn:
        figures = (float(reduce(line.values)) for reduce in (np.nanmin, np.nanmean, np.nanmax))
        cells = (f"{numbers.number(value)}{numbers.SPACE}{line.panel.unit}" for value in figures)
        rows.append((f"{line.panel.title} ({device_name(line.device)})", *cells))
    for band in shaded:
        start = f"from {numbers.duration(band.start_s)}"
        rows.append((band.label, start, f"for {numbers.duration(band.end_s - band.start_s)}", ""))
    return Table(header=("What", "Least", "Mean", "Greatest"), rows=tuple(rows))
