"""Chart of the telemetry of a trial: stacked panels with a common time axis, shaded by phase."""

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
from harness.run.downsampling import downsample
from reports import numbers
from reports.charts import COLOUR, Figure, Key, Panel, Table, labels_axis, panel, rows, stacked
from reports.names import device_name, variant_name
from reports.palette import DASHES, gpu_colour, phase_colour
from reports.phases import MEASURED, Band, bands, measured_span

Floats = NDArray[np.float64]
Records = list[dict[str, Any]]

_AXIS_PX = 46
_PANEL_PX = 56
_RIBBON_PX = 14
_SPACING_PX = 30  # fits the title of a panel
_CELLS = 160  # time intervals of the crosshair
_MIN_POINTS = 120  # per line
ALERT = "var(--alert)"
_PICKED: Any = {"param": "hover", "empty": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """The quantity shown in one panel.

    Attributes:
        metrics: (source, name) in order of preference; the first one available is drawn for each device.
        top: upper end of the axis, if fixed.
        zero: whether the axis starts at zero.
    """

    title: str
    unit: str
    metrics: tuple[tuple[str, str], ...]
    top: float | None = None
    zero: bool = True


QUANTITIES = (
    Quantity(
        title="GPU utilisation",
        unit="%",
        metrics=(("nvml", "gpu_util_pct"), ("nvml_util", "gpu_util_pct")),
        top=100,
    ),
    Quantity(title="SM activity", unit="%", metrics=(("gpm", "sm_util_pct"),), top=100),
    Quantity(title="GPU power", unit="W", metrics=(("nvml", "power_instant_w"), ("nvml", "power_usage_w"))),
    Quantity(title="GPU temperature", unit="°C", metrics=(("nvml", "temperature_c"),), zero=False),
    Quantity(title="CPU busy", unit="%", metrics=(("host", "cpu_util_pct"),), top=100),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One device's readings of a quantity: seconds since the start of the trial, values in its unit."""

    quantity: Quantity
    device: str
    t_s: Floats
    values: Floats


def _lines(trial: Trial) -> Iterator[Line]:
    """Yield the lines to draw, by quantity and device, in the order of the panels."""
    read = {
        (series.device, series.source, metric): series
        for series in trial.telemetry
        for metric, values in series.columns.items()
        if np.isfinite(values).any()
    }
    devices = dict.fromkeys(series.device for series in trial.telemetry)
    for quantity, device in itertools.product(QUANTITIES, devices):
        for source, metric in quantity.metrics:
            if series := read.get((device, source, metric)):
                t_s = (series.t_ns - trial.started_ns) / 1e9
                yield Line(quantity, device, t_s, np.round(series.columns[metric], 1))
                break


def telemetry_figure(
    trial: Trial, *, number: int, title: str, points: int, gpus: Sequence[Gpu]
) -> Figure | None:
    """Draw the telemetry of one trial; None without telemetry.

    Args:
        points: total number of points of all lines.
        gpus: GPUs of the manifest, for their power limits.
    """
    drawn = list(_lines(trial))
    if not drawn:
        return None
    shaded = bands(trial)
    extent = max((trial.ended_ns - trial.started_ns) / 1e9, *(float(line.t_s[-1]) for line in drawn))
    groups = [list(group) for _, group in itertools.groupby(drawn, key=lambda line: line.quantity)]
    scale = alt.Scale(domain=[0, round(extent, 2)], nice=False)
    seconds = alt.Axis(title="seconds since the container started", grid=False, tickCount=12)
    hidden = alt.Axis(title=None, labels=False, ticks=False, grid=False, tickCount=12)
    phases, cells = _records(shaded), _cells(groups, extent)
    limit_w = _power_limit(trial, gpus)
    panels = []
    for index, group in enumerate(groups):
        x = alt.X("t:Q", scale=scale, axis=seconds if group is groups[-1] else hidden)
        layers = [
            _shading(phases, x).mark_rect(clip=True, opacity=0.45),
            *_lines_of(index, group, x, max(points // len(drawn), _MIN_POINTS), limit_w),
            *([_variants(phases, x)] if index == 0 else []),
            *_crosshair(index, cells, x),
        ]
        heading = f"{group[0].quantity.title}, {group[0].quantity.unit}"
        panels.append(panel(*layers, heading=heading, height=_PANEL_PX))
    params = [
        {"name": "zoom", "bind": "scales", "views": [f"lines{index}" for index in range(len(groups))],
         "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"}},
        {"name": "hover", "views": [f"cells{index}" for index in range(len(groups))],
         "select": {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"}},
    ]  # fmt: skip
    whole = _ribbon(phases, alt.X("t:Q", scale=scale, axis=None))
    return Figure(
        id=f"figure-telemetry-{number}",
        title=title,
        spec=stacked([whole, *panels], labels_px=_AXIS_PX, spacing=_SPACING_PX, params=params),
        table=_table(drawn),
        reserve_px=_AXIS_PX + 4,
        legend=_legend(drawn, shaded, limit_w),
        extent_s=extent,
        opens_s=measured_span(shaded),
    )


def _power_limit(trial: Trial, gpus: Sequence[Gpu]) -> float | None:
    """Return the highest power limit of the trial's GPUs."""
    indices = [_gpu_index(device) for device in trial.device.split("+")]
    limits = [gpus[index].power_limit_w for index in indices if index is not None and index < len(gpus)]
    return max((limit for limit in limits if limit is not None), default=None)


def _gpu_index(device: str) -> int | None:
    index = device.removeprefix("gpu")
    return int(index) if index.isdecimal() else None


def _records(shaded: Sequence[Band]) -> Records:
    return [
        {
            "t": round(band.start_s, 2), "end": round(band.end_s, 2), "colour": phase_colour(band.kind),
            "what": band.label, "long": numbers.duration(band.end_s - band.start_s),
            "name": variant_name(band.variant) if band.kind == MEASURED else "",
        }
        for band in shaded
    ]  # fmt: skip


def _shading(phases: Records, x: alt.X) -> alt.Chart:
    chart: alt.Chart = alt.Chart(rows(phases)).encode(
        x=x, x2=alt.X2("end:Q"), fill=alt.Fill("colour:N", scale=None)
    )
    return chart


def _ribbon(phases: Records, x: alt.X) -> Panel:
    """Draw the phases of the whole trial, independent of the zoom of the panels."""
    tooltip = [alt.Tooltip("what:N", title="phase"), alt.Tooltip("long:N", title="lasted")]
    layer = _shading(phases, x).mark_rect(clip=True).encode(tooltip=tooltip)
    return panel(layer, heading="Whole trial", height=_RIBBON_PX)


def _variants(phases: Records, x: alt.X) -> alt.Chart:
    """Write the names of variants above their measured phases, truncated to fit; for the first line panel."""
    # The ribbon is panel 0, so the first line panel has the scale "concat_1_x".
    width = "max(1, scale('concat_1_x', datum.end) - scale('concat_1_x', datum.t) - 6)"
    names = alt.Chart(rows(phases)).transform_filter("datum.name")
    chart: alt.Chart = names.mark_text(
        align="left", baseline="top", dx=3, dy=2, fontSize=10, clip=True, limit=alt.expr(width)
    ).encode(x=x, y=alt.value(0), text=alt.Text("name:N"))
    return chart


def _lines_of(
    index: int, group: Sequence[Line], x: alt.X, points: int, limit_w: float | None
) -> Iterator[alt.Chart]:
    """Yield the lines of a panel with `points` points each, and the power limit in the power panel."""
    quantity = group[0].quantity
    domain = alt.Undefined if quantity.top is None else [0, quantity.top]
    scale = alt.Scale(domain=domain, zero=quantity.zero, nice=quantity.top is None)
    y = alt.Y("v:Q", scale=scale, axis=labels_axis(_AXIS_PX, tickCount=3, format="~r"))
    lines = alt.Chart(rows([_record(line, points) for line in group]), name=f"lines{index}")
    yield (
        lines.transform_flatten(["t", "v"])
        .mark_line(clip=True)
        .encode(
            x=x, y=y, detail=alt.Detail("d:N"), color=COLOUR, strokeDash=alt.StrokeDash("dash:N", scale=None)
        )
    )
    if limit_w is not None and quantity.unit == "W":
        line = alt.Chart(rows([{"v": limit_w}])).mark_rule(stroke=ALERT, strokeWidth=1, strokeDash=[4, 3])
        yield line.encode(y=y)


def _record(line: Line, points: int) -> dict[str, Any]:
    """Return a line as one record of lists, which is much smaller than one record per reading."""
    t_s, columns = downsample(line.t_s, {"v": line.values}, points)
    gpu = _gpu_index(line.device)
    return {
        "d": line.device,
        "colour": "var(--cpu)" if gpu is None else gpu_colour(gpu),
        "dash": list(DASHES[(gpu or 0) % len(DASHES)]),
        "t": np.round(t_s, 2).tolist(),
        "v": [None if math.isnan(value) else value for value in columns["v"].tolist()],
    }


def _crosshair(index: int, cells: Records, x: alt.X) -> Iterator[alt.Chart]:
    """Yield the cells that the pointer selects in any panel, and this panel's readings there."""
    base = alt.Chart(rows(cells))
    picked = alt.condition(_PICKED, alt.value("var(--ink)"), alt.value("transparent"))
    rectangles = base.mark_rect(clip=True, fillOpacity=0.18).encode(x=x, x2=alt.X2("end:Q"), fill=picked)
    yield rectangles.properties(name=f"cells{index}")
    readings = base.transform_filter(_PICKED).mark_text(
        align="right", baseline="bottom", dy=-3, fontWeight=600
    )
    yield readings.encode(x=alt.value("width"), y=alt.value(0), text=alt.Text(f"p{index}:N"))


def _cells(groups: Sequence[Sequence[Line]], extent_s: float) -> Records:
    """Return the cells of the crosshair: time intervals with the readings of each panel."""
    step = extent_s / _CELLS
    result = []
    for start in (number * step for number in range(_CELLS)):
        cell: dict[str, Any] = {"t": round(start, 3), "end": round(start + step, 3)}
        for index, group in enumerate(groups):
            texts = [text for line in group if (text := _reading(line, start, start + step, len(group) > 1))]
            cell[f"p{index}"] = f"{start:.1f} s: {', '.join(texts)} {group[0].quantity.unit}" if texts else ""
        result.append(cell)
    return result


def _reading(line: Line, start_s: float, end_s: float, named: bool) -> str:
    inside = line.values[(line.t_s >= start_s) & (line.t_s < end_s)]
    inside = inside[np.isfinite(inside)]
    if not len(inside):
        return ""
    low, high = float(inside.min()), float(inside.max())
    name = f"{device_name(line.device)} " if named else ""
    return f"{name}{low:g}{f' to {high:g}' if high > low else ''}"


def _legend(drawn: Sequence[Line], shaded: Sequence[Band], limit_w: float | None) -> tuple[Key, ...]:
    gpus = {line.device: index for line in drawn if (index := _gpu_index(line.device)) is not None}
    several = gpus.items() if len(gpus) > 1 else ()
    keys = [Key(colour=gpu_colour(index), shape="line", name=device_name(gpu)) for gpu, index in several]
    kinds = dict.fromkeys(band.kind for band in shaded)
    keys += [Key(colour=phase_colour(kind), shape="bar", name=kind) for kind in kinds]
    if limit_w is not None and any(line.quantity.unit == "W" for line in drawn):
        keys.append(Key(colour=ALERT, shape="dash", name="power limit"))
    return tuple(keys)


def _table(drawn: Sequence[Line]) -> Table:
    result = []
    for line in drawn:
        figures = (float(reduce(line.values)) for reduce in (np.nanmin, np.nanmean, np.nanmax))
        cells = (f"{numbers.number(value)}{numbers.SPACE}{line.quantity.unit}" for value in figures)
        result.append((f"{line.quantity.title} ({device_name(line.device)})", *cells))
    return Table(header=("Metric", "Minimum", "Mean", "Maximum"), rows=tuple(result))
