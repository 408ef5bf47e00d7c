"""Telemetry of one trial, panel under panel on one time axis, shaded by phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from harness.model.platform import Gpu
from harness.model.run import Trial
from harness.run.thinning import thin
from reports import numbers
from reports.charts import Figure, Key, Panel, Table, labels_axis, panel, rows, stacked
from reports.names import device_name, variant_name
from reports.palette import DASHES, gpu_colour
from reports.phases import MEASURED, Band, bands, measured_span

Floats = NDArray[np.float64]

_AXIS_PX = 46
_PANEL_PX = 56
_RIBBON_PX = 14
_SPACING_PX = 30  # room for a panel's title
_CELLS = 160  # stretches that the crosshair reads
_LEAST_POINTS = 120  # of a line
ALERT = "var(--alert)"
_PICKED: Any = {"param": "hover", "empty": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What one panel shows through time.

    Attributes:
        metrics: names in order of preference; of each device the first that was read is drawn.
        source: the one that counts; "" is any.
        top: the axis' upper end, where it is known.
        zero: whether the axis begins at zero.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    source: str = ""
    decimals: int = 0
    top: float | None = None
    zero: bool = True


QUANTITIES = (
    Quantity(title="GPU utilisation", unit="%", metrics=("gpu_util_pct",), top=100),
    Quantity(title="SM activity", unit="%", metrics=("sm_util_pct",), decimals=1, top=100),
    Quantity(title="GPU power", unit="W", metrics=("power_instant_w", "power_usage_w", "power_average_w")),
    Quantity(title="GPU temperature", unit="°C", metrics=("temperature_c",), zero=False),
    Quantity(title="CPU busy", unit="%", metrics=("cpu_util_pct",), source="host", decimals=1, top=100),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One device's readings of one quantity: seconds since the trial began, values in the quantity's unit."""

    quantity: Quantity
    device: str
    t_s: Floats
    values: Floats


def _lines(trial: Trial) -> Iterator[Line]:
    """Yield what is drawn of each quantity and device, in the panels' order: the source that was read most often."""
    devices = dict.fromkeys(series.device for series in trial.telemetry)
    for quantity, device in itertools.product(QUANTITIES, devices):
        result = [
            (-rank, len(series.t_ns), series, metric)
            for rank, metric in enumerate(quantity.metrics)
            for series in trial.telemetry
            if series.device == device
            and quantity.source in ("", series.source)
            and metric in series.columns
            and np.isfinite(series.columns[metric]).any()
        ]
        if result:
            *_, series, metric = max(result, key=lambda each: each[:2])
            t_s = (series.t_ns - trial.started_ns) / 1e9
            yield Line(quantity=quantity, device=device, t_s=t_s, values=series.columns[metric])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What all panels of a trial share: records of phases and of the crosshair's cells."""

    phases: list[dict[str, Any]]
    cells: list[dict[str, Any]]
    extent_s: float
    points: int
    limit_w: float | None

    def x(self, field: str, axis: alt.Axis | None) -> alt.X:
        """Return the time axis for a field of seconds."""
        scale = alt.Scale(domain=[0, round(self.extent_s, 2)], nice=False)
        return alt.X(f"{field}:Q", scale=scale, axis=axis)


def telemetry_figure(
    trial: Trial, *, number: int, title: str, points: int, gpus: Sequence[Gpu]
) -> Figure | None:
    """Draw one trial through time; None without telemetry.

    Args:
        points: instants to draw, over all lines.
        gpus: of the manifest, for their power limits.
    """
    drawn = list(_lines(trial))
    if not drawn:
        return None
    shaded = bands(trial)
    extent = max((trial.ended_ns - trial.started_ns) / 1e9, *(float(line.t_s[-1]) for line in drawn))
    groups: dict[str, list[Line]] = {}
    for line in drawn:
        groups.setdefault(line.quantity.title, []).append(line)
    shared = _Trial(
        phases=[_band(band) for band in shaded],
        cells=_cells(groups, extent),
        extent_s=extent,
        points=max(points // len(drawn), _LEAST_POINTS),
        limit_w=_power_limit(trial, gpus),
    )
    last = len(groups) - 1
    panels = [_panel(place, own, shared, last=place == last) for place, own in enumerate(groups.values())]
    params = [
        {"name": "zoom", "bind": "scales", "views": [f"lines{place}" for place in range(len(groups))],
         "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"}},
        {"name": "hover", "views": [f"cells{place}" for place in range(len(groups))],
         "select": {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"}},
    ]  # fmt: skip
    return Figure(
        id=f"figure-telemetry-{number}",
        title=title,
        description=f"Telemetry through time: {', '.join(groups)}. It opens on the measured windows. "
        "The table below has least, mean and greatest values.",
        spec=stacked([_ribbon(shared), *panels], spacing=_SPACING_PX, params=params),
        table=_table(drawn),
        reserve_px=_AXIS_PX + 4,
        legend=_legend(drawn, shaded),
        extent_s=extent,
        opens_s=measured_span(shaded),
    )


def _power_limit(trial: Trial, gpus: Sequence[Gpu]) -> float | None:
    """Return the highest power limit of the trial's GPUs."""
    places = [_gpu_index(device) for device in trial.device.split("+")]
    limits = [gpus[place].power_limit_w for place in places if place is not None and place < len(gpus)]
    return max((limit for limit in limits if limit is not None), default=None)


def _gpu_index(device: str) -> int | None:
    index = device.removeprefix("gpu")
    return int(index) if index.isdecimal() else None


def _ribbon(shared: _Trial) -> Panel:
    """Draw the phases of the whole trial, whatever stretch of it the panels show."""
    ribbon = alt.Chart(rows(shared.phases)).mark_rect(clip=True)
    layer = ribbon.encode(
        x=shared.x("a", None),
        x2=alt.X2("b:Q"),
        fill=alt.Fill("c:N", scale=None),
        tooltip=[alt.Tooltip("what:N", title="phase"), alt.Tooltip("long:N", title="lasted")],
    )
    return panel(layer, heading="Whole trial", labels_px=_AXIS_PX, height_px=_RIBBON_PX)


def _panel(place: int, own: Sequence[Line], shared: _Trial, *, last: bool) -> Panel:
    quantity = own[0].quantity
    limit_w = shared.limit_w if quantity.unit == "W" else None
    title = "seconds since the container started" if last else None
    axis = alt.Axis(title=title, labels=last, ticks=last, grid=False, tickCount=12)
    start, x = shared.x("a", axis), shared.x("t", axis)
    domain = alt.Undefined if quantity.top is None else [0, quantity.top]
    scale = alt.Scale(domain=domain, zero=quantity.zero, nice=quantity.top is None)
    y = alt.Y("v:Q", scale=scale, axis=labels_axis(_AXIS_PX, tickCount=3, format="~r"))
    phases = alt.Chart(rows(shared.phases)).encode(x=start)
    lines = alt.Chart(rows([_record(line, shared.points) for line in own]), name=f"lines{place}")
    layers = [
        phases.mark_rect(clip=True, opacity=0.45).encode(x2=alt.X2("b:Q"), fill=alt.Fill("c:N", scale=None)),
        lines.transform_flatten(["t", "v"])
        .mark_line(clip=True)
        .encode(
            x=x,
            y=y,
            detail=alt.Detail("d:N"),
            stroke=alt.Stroke("c:N", scale=None),
            strokeDash=alt.StrokeDash("dash:N", scale=None),
        ),
    ]
    if limit_w is not None:
        line = alt.Chart(rows([{"v": limit_w}])).mark_rule(stroke=ALERT, strokeWidth=1, strokeDash=[4, 3])
        layers.append(line.encode(y=y))
    if place == 0:
        # Variants over their measured stretches, cut off where these are narrow. This panel is the second.
        room = "max(1, scale('concat_1_x', datum.b) - scale('concat_1_x', datum.a) - 6)"
        names = phases.transform_filter("datum.name").mark_text(
            align="left", baseline="top", dx=3, dy=2, fontSize=10, clip=True, limit=alt.expr(room)
        )
        layers.append(names.encode(y=alt.value(0), text=alt.Text("name:N")))
    cells = alt.Chart(rows(shared.cells))
    picked = alt.condition(_PICKED, alt.value("var(--ink)"), alt.value("transparent"))
    readings = cells.transform_filter(_PICKED).mark_text(
        align="right", baseline="bottom", dy=-3, fontWeight=600
    )
    layers += [
        cells.mark_rect(clip=True, fillOpacity=0.18)
        .encode(x=x, x2=alt.X2("end:Q"), fill=picked)
        .properties(name=f"cells{place}"),
        readings.encode(x=alt.value("width"), y=alt.value(0), text=alt.Text(f"p{place}:N")),
    ]
    heading = f"{quantity.title}, {quantity.unit}"
    return panel(*layers, heading=heading, labels_px=_AXIS_PX, height_px=_PANEL_PX)


def _record(line: Line, points: int) -> dict[str, Any]:
    """Return a line as one record of lists, which takes a fraction of the room of a record a reading."""
    t_s, columns = thin(line.t_s, {"v": line.values}, points)
    values = np.round(columns["v"], line.quantity.decimals).tolist()
    own = _gpu_index(line.device)
    return {
        "d": line.device,
        "c": "var(--cpu)" if own is None else gpu_colour(own),
        "dash": list(DASHES[(own or 0) % len(DASHES)]),
        "t": np.round(t_s, 2).tolist(),
        "v": [None if math.isnan(value) else value for value in values],
    }


def _cells(groups: dict[str, list[Line]], extent_s: float) -> list[dict[str, Any]]:
    """Return stretches that the pointer picks in any panel, and by a panel's place what it reads there."""
    step = extent_s / _CELLS
    result = []
    for number in range(_CELLS):
        start = number * step
        cell: dict[str, Any] = {"t": round(start, 3), "end": round(start + step, 3)}
        for place, own in enumerate(groups.values()):
            texts = [text for line in own if (text := _reading(line, start, start + step, len(own) > 1))]
            cell[f"p{place}"] = f"{start:.1f} s: {', '.join(texts)} {own[0].quantity.unit}" if texts else ""
        result.append(cell)
    return result


def _reading(line: Line, start_s: float, end_s: float, named: bool) -> str:
    inside = line.values[(line.t_s >= start_s) & (line.t_s < end_s)]
    inside = inside[np.isfinite(inside)]
    if not len(inside):
        return ""
    low, high = (round(float(value), line.quantity.decimals) for value in (inside.min(), inside.max()))
    name = f"{device_name(line.device)} " if named else ""
    return f"{name}{low:g}{f' to {high:g}' if high > low else ''}"


def _band(band: Band) -> dict[str, Any]:
    return {
        "a": round(band.start_s, 2), "b": round(band.end_s, 2), "c": band.colour, "what": band.label,
        "long": numbers.duration(band.end_s - band.start_s),
        "name": variant_name(band.variant) if band.kind == MEASURED else "",
    }  # fmt: skip


def _legend(drawn: Sequence[Line], shaded: Sequence[Band]) -> tuple[Key, ...]:
    gpus = {line.device: place for line in drawn if (place := _gpu_index(line.device)) is not None}
    several = gpus.items() if len(gpus) > 1 else ()
    keys = [Key(colour=gpu_colour(place), shape="line", name=device_name(gpu)) for gpu, place in several]
    kinds = dict.fromkeys((band.kind, band.colour) for band in shaded)
    keys += [Key(colour=colour, shape="bar", name=kind) for kind, colour in kinds]
    if any(line.quantity.unit == "W" for line in drawn):
        keys.append(Key(colour=ALERT, shape="dash", name="power limit"))
    return tuple(keys)


def _table(drawn: Sequence[Line]) -> Table:
    result = []
    for line in drawn:
        figures = (float(reduce(line.values)) for reduce in (np.nanmin, np.nanmean, np.nanmax))
        cells = (f"{numbers.number(value)}{numbers.SPACE}{line.quantity.unit}" for value in figures)
        result.append((f"{line.quantity.title} ({device_name(line.device)})", *cells))
    return Table(header=("What", "Least", "Mean", "Greatest"), rows=tuple(result))
