"""Timelines: telemetry of one trial, panel under panel on one time axis, shaded by phase."""

from __future__ import annotations

from typing import Any

from harness.model.run import Trial
from reports import numbers
from reports.charts import Figure, Key, Table, chart
from reports.hover import hover_layer
from reports.names import device_name
from reports.timeline import PANELS, Band, Line, bands, extremes, lines, records, throttled

_AXIS_PX = 46
_PANEL_PX = 64
_RIBBON_PX = 9
_SPACING_PX = 32  # room for a panel's title
_SHADED = 60  # more bands than this are shown in the ribbon only: shading would be a flicker
_CARD_COLOURS = 8
_STILL_POINTS = (80, 240)
_STILL_TOTAL = 6_000  # instants in all lines of a still: it stands in the page beside the live one


def timeline_figure(trial: Trial, *, number: int, title: str, points: int) -> Figure | None:
    """Draw one trial through time, at most `points` instants a line; None without telemetry."""
    found = lines(trial)
    if not found:
        return None
    extent = max((trial.ended_ns - trial.started_ns) / 1e9, *(float(line.t_s[-1]) for line in found))
    shaded, held = bands(trial), throttled(trial)
    drawing = _Drawing(found, shaded, held, extent)
    return Figure(
        id=f"figure-timeline-{number}",
        title=title,
        description=f"Telemetry of trial {trial.id} through time: "
        + ", ".join(PANELS[panel].title for panel in drawing.used)
        + ". The table below gives least, mean and greatest values and the phases.",
        spec=drawing.spec(points, interactive=True),
        still_spec=drawing.spec(_still_points(len(found)), interactive=False),
        table=_table(found, shaded, held),
        reserve_px=_AXIS_PX + 4,
        rank=1 + number,
        legend=_legend(found, shaded, held),
        extent_s=extent,
    )


def _still_points(lines_drawn: int) -> int:
    low, high = _STILL_POINTS
    return min(max(_STILL_TOTAL // lines_drawn, low), high)


class _Drawing:
    """The specification of one timeline, with or without what a pointer can do."""

    def __init__(
        self, found: tuple[Line, ...], shaded: tuple[Band, ...], held: tuple[Band, ...], extent_s: float
    ) -> None:
        self._found = found
        self._shaded = shaded
        self._held = held
        self._extent_s = extent_s
        self._bands = [_band(band) for band in shaded]
        self._stops = [_band(band) for band in held]
        self.used = sorted({line.panel for line in found})

    def spec(self, points: int, *, interactive: bool) -> dict[str, Any]:
        panels = [self._ribbon(interactive)] if self._shaded else []
        panels += [self._panel(panel, interactive) for panel in self.used]
        params = [
            {
                "name": "zoom", "bind": "scales",
                "views": [f"lines{panel}" for panel in self.used] + (["ribbon"] if self._shaded else []),
                "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"},
            },
            {
                "name": "hover", "views": [f"hover{panel}" for panel in self.used],
                "select": {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"},
            },
        ]  # fmt: skip
        datasets = {
            "lines": [
                {**record, "d": self._position(record["d"]), "c": _colour(record["d"])}
                for record in records(self._found, points)
            ],
            "bands": self._bands,
            "held": self._stops,
        }
        return chart(
            panels, spacing=_SPACING_PX, datasets=datasets, **({"params": params} if interactive else {})
        )

    def _position(self, device: str) -> int:
        return list(dict.fromkeys(line.device for line in self._found)).index(device)

    def _x(self, **more: Any) -> dict[str, Any]:
        scale = {"domain": [0, round(self._extent_s, 2)], "nice": False}
        return {"type": "quantitative", "scale": scale, **more}

    def _ribbon(self, interactive: bool) -> dict[str, Any]:
        tooltip = [
            {"field": "what", "title": "phase", "type": "nominal"},
            {"field": "long", "title": "lasted", "type": "nominal"},
            {"field": "a", "title": "from second", "type": "quantitative"},
        ]
        band = {
            "name": "ribbon",
            "data": {"name": "bands"},
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": self._x(field="a", axis=None), "x2": {"field": "b"},
                "fill": {"field": "c", "type": "nominal", "scale": None},
                **({"tooltip": tooltip} if interactive else {}),
            },
        }  # fmt: skip
        return {"height": _RIBBON_PX, "layer": [band]}

    def _panel(self, number: int, interactive: bool) -> dict[str, Any]:
        panel = PANELS[number]
        own = [line for line in self._found if line.panel == number]
        last = number == self.used[-1]
        title = "seconds since the container started" if last else None
        x = self._x(field="t", axis={"title": title, "labels": last, "ticks": last, "grid": False})
        y = {
            "field": "v", "type": "quantitative",
            "scale": {"nice": True} if panel.top is None else {"domain": [0, panel.top], "nice": False},
            "axis": {"title": None, "tickCount": 3, "minExtent": _AXIS_PX, "maxExtent": _AXIS_PX,
                     "ticks": False, "format": "~r"},
        }  # fmt: skip
        readings: list[dict[str, Any]] = [
            {"filter": f"isValid(datum.p{number})"},
            {"flatten": ["t", f"p{number}"], "as": ["t", "v"]},
        ]
        layers: list[dict[str, Any]] = []
        if 0 < len(self._shaded) <= _SHADED:
            layers.append(_rects("bands", x, {"field": "c", "type": "nominal", "scale": None}, opacity=0.13))
        layers.append(
            {
                "name": f"lines{number}",
                "data": {"name": "lines"},
                "transform": readings,
                "mark": {"type": "line", "clip": True},
                "encoding": {"x": x, "y": y, "detail": {"field": "d"},
                             "stroke": {"field": "c", "type": "nominal", "scale": None}},
            }
        )  # fmt: skip
        if interactive:
            devices = {self._position(line.device): device_name(line.device) for line in own}
            layers.append(hover_layer(number, devices, readings, x, self._extent_s))
        if self._held and own[0].metric == "sm_clock_mhz":
            layers.append(_throttle_layer(x, interactive))
        heading = {"text": f"{panel.title}, {panel.unit}", "dx": -_AXIS_PX}
        return {"title": heading, "height": _PANEL_PX, "layer": layers}


def _rects(data: str, x: dict[str, Any], fill: dict[str, Any], **mark: Any) -> dict[str, Any]:
    return {
        "data": {"name": data},
        "mark": {"type": "rect", "clip": True, **mark},
        "encoding": {"x": {**x, "field": "a"}, "x2": {"field": "b"}, "fill": fill},
    }


def _throttle_layer(x: dict[str, Any], interactive: bool) -> dict[str, Any]:
    layer = _rects("held", x, {"value": "var(--alert)"}, y=0, y2=5)
    if interactive:
        layer["encoding"]["tooltip"] = [
            {"field": "what", "title": "throttled", "type": "nominal"},
            {"field": "long", "title": "for", "type": "nominal"},
        ]
    return layer


def _band(band: Band) -> dict[str, Any]:
    return {
        "a": round(band.start_s, 2), "b": round(band.end_s, 2), "c": band.colour, "what": band.label,
        "long": numbers.duration(band.end_s - band.start_s),
    }  # fmt: skip


def _colour(device: str) -> str:
    index = device.removeprefix("gpu")
    return f"var(--gpu-{int(index) % _CARD_COLOURS})" if index.isdecimal() else "var(--cpu)"


def _legend(found: tuple[Line, ...], shaded: tuple[Band, ...], held: tuple[Band, ...]) -> tuple[Key, ...]:
    cards = dict.fromkeys(line.device for line in found if line.device.startswith("gpu"))
    keys = [Key(colour=_colour(card), shape="line", name=device_name(card)) for card in cards]
    keys = keys if len(cards) > 1 else []
    kinds = dict.fromkeys((band.kind, band.colour) for band in shaded)
    keys += [Key(colour=colour, shape="bar", name=kind) for kind, colour in kinds]
    if held:
        keys.append(Key(colour="var(--alert)", shape="bar", name="throttled"))
    return tuple(keys)


def _table(found: tuple[Line, ...], shaded: tuple[Band, ...], held: tuple[Band, ...]) -> Table:
    rows = []
    for line in found:
        panel, values = PANELS[line.panel], extremes(line)
        figures = (f"{numbers.number(values[key])}{numbers.SPACE}{panel.unit}" for key in values)
        rows.append((f"{panel.title} ({device_name(line.device)})", *figures))
    for band in (*shaded, *held):
        start = f"from {numbers.duration(band.start_s)}"
        rows.append((f"{band.kind}: {band.label}", start, f"for {_band(band)['long']}", ""))
    return Table(header=("What", "Least", "Mean", "Greatest"), rows=tuple(rows))
