"""Chart of the telemetry of a trial: stacked panels with a common time axis, shaded by phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from harness.model.device import positions
from harness.model.metrics import METRICS, MetricKind, TelemetryMetric, is_kind
from harness.model.run import Series, Trial
from harness.run.downsampling import downsample
from reports import numbers
from reports.charts import (
    COLOUR,
    DASHES,
    INK_2,
    Figure,
    LegendKey,
    Table,
    gpu_colour,
    labels_axis,
    panel,
    phase_colour,
    rows,
    stacked,
)
from reports.text import device_name
from workloads.protocol import EVALUATE, FIRST_STEP, SOAK, STEADY, WARM_UP
from workloads.variants import variant_name

Floats = NDArray[np.float64]
Records = list[dict[str, Any]]

_AXIS_PX = 46
_PANEL_PX = 56
_SPACING_PX = 30  # fits the title of a panel
_CELLS = 160  # time intervals of the crosshair
_MIN_POINTS = 120  # per line
ALERT = "var(--alert)"
_START, _MEASURED = "start-up", "measured"
_KINDS = {FIRST_STEP: "first step", WARM_UP: "warm-up", STEADY: _MEASURED, EVALUATE: "evaluation"}
_PICKED: Any = {"param": "hover", "empty": False}


class Panel(NamedTuple):
    """A panel of the chart: of its (source, metric), each device has the first that was read there."""

    title: str
    unit: str
    metrics: tuple[tuple[str, str], ...]


def _panels() -> tuple[Panel, ...]:
    drawn = [metric for metric in METRICS.values() if metric.panel]
    panels = (
        Panel(
            title, _unit(group[0]), tuple(itertools.chain.from_iterable(metric.readings for metric in group))
        )
        for title in dict.fromkeys(metric.panel for metric in drawn)
        if (group := [metric for metric in drawn if metric.panel == title])
    )
    return (
        Panel("Speed", "% of its fastest second", ((SOAK, "speed"),)),
        Panel("SM clock", "MHz", ((SOAK, "sm_clock_mhz"),)),
        *panels,
    )


def _unit(metric: TelemetryMetric) -> str:
    """Return the unit in which a metric is drawn."""
    return f"{metric.unit.symbol or '1'}/s" if metric.kind is MetricKind.COUNTER else metric.unit.symbol


PANELS = _panels()


@dataclass(frozen=True, slots=True)
class Line:
    """One device's readings in a panel: seconds since the start of the trial, values in its unit."""

    panel: Panel
    device: str
    t_s: Floats
    values: Floats


def _lines(trial: Trial) -> Iterator[Line]:
    """Yield the lines to draw, by panel and device."""
    read = {
        (series.device, series.source, metric): series
        for series in trial.telemetry
        for metric, values in series.columns.items()
        if np.isfinite(values).any()
    }
    devices = dict.fromkeys(series.device for series in trial.telemetry)
    for drawn, device in itertools.product(PANELS, devices):
        for source, metric in drawn.metrics:
            if series := read.get((device, source, metric)):
                t_s, values = (series.t_ns - trial.started_ns) / 1e9, series.columns[metric]
                if is_kind(metric, MetricKind.COUNTER):
                    t_s, values = _rates(t_s, values)
                if len(t_s):
                    yield Line(drawn, device, t_s, np.round(values, 1))
                break


def _rates(t_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the rates of a counter between successive readings, at the later ones."""
    good = np.isfinite(values)
    t_s, values = t_s[good], values[good]
    later = t_s[1:] > t_s[:-1]
    return t_s[1:][later], np.diff(values)[later] / np.diff(t_s)[later]


def telemetry_figure(
    trial: Trial, id_: str, title: str, *, points: int, power_limit_w: float | None
) -> Figure | None:
    """Draw the telemetry of one trial; None without telemetry.

    Args:
        points: total number of points of all lines.
        power_limit_w: drawn as a line, unless it is None.
    """
    drawn = list(_lines(trial))
    if not drawn:
        return None
    phases = _phases(trial)
    extent = max(trial.duration_s, *(float(line.t_s[-1]) for line in drawn))
    groups = [list(group) for _, group in itertools.groupby(drawn, key=lambda line: line.panel)]
    scale = alt.Scale(domain=[0, round(extent, 2)], nice=False)
    seconds = alt.Axis(title="seconds since the container started", grid=False, tickCount=12)
    hidden = alt.Axis(title=None, labels=False, ticks=False, grid=False, tickCount=12)
    cells = _cells(groups, extent)
    panels = []
    for index, group in enumerate(groups):
        shown = group[0].panel
        x = alt.X("t:Q", scale=scale, axis=seconds if group is groups[-1] else hidden)
        layers = [
            _shading(phases, x),
            _lines_of(index, group, x, max(points // len(drawn), _MIN_POINTS)),
            *([_limit(power_limit_w)] if power_limit_w is not None and shown.unit == "W" else []),
            *([_variants(phases, x)] if index == 0 else []),
            *_crosshair(index, cells, x),
        ]
        panels.append(panel(*layers, heading=f"{shown.title}, {shown.unit}", height=_PANEL_PX))
    params = [
        {"name": "zoom", "bind": "scales", "views": [f"lines{index}" for index in range(len(groups))],
         "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"}},
        {"name": "hover", "views": [f"cells{index}" for index in range(len(groups))],
         "select": {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"}},
    ]  # fmt: skip
    measured = [phase for phase in phases if phase["kind"] == _MEASURED]
    return Figure(
        id=id_,
        title=title,
        spec=stacked(panels, labels_px=_AXIS_PX, spacing=_SPACING_PX, params=params),
        table=_table(drawn),
        reserve_px=_AXIS_PX + 4,
        legend=_legend(drawn, phases, power_limit_w),
        extent_s=extent,
        opens_s=(measured[0]["t"], measured[-1]["end"]) if measured else None,
    )


def _phases(trial: Trial) -> Records:
    """Return the phases of a trial in order, in seconds since its start; windows of a variant are one phase."""
    spans = [
        (phase.start_ns, phase.end_ns, _KINDS.get(phase.name, _START), phase.variant)
        for phase in trial.phases
    ]
    spans += [(request.start_ns, request.end_ns, "requests", request.variant) for request in trial.requests]
    result = []
    for (kind, variant), group in itertools.groupby(sorted(spans), key=lambda span: span[2:]):
        start_ns, *_, end_ns = (moment for span in group for moment in span[:2])
        result.append(
            {
                "t": round((start_ns - trial.started_ns) / 1e9, 2),
                "end": round((end_ns - trial.started_ns) / 1e9, 2),
                "kind": kind,
                "colour": phase_colour(kind),
                "name": variant_name(variant) if kind == _MEASURED else "",
            }
        )
    return result


def _shading(phases: Records, x: alt.X) -> alt.Chart:
    rectangles = alt.Chart(rows(phases)).mark_rect(clip=True, opacity=0.45)
    chart: alt.Chart = rectangles.encode(x=x, x2=alt.X2("end:Q"), fill=alt.Fill("colour:N", scale=None))
    return chart


def _variants(phases: Records, x: alt.X) -> alt.Chart:
    """Write the names of variants above their measured phases, truncated to fit; for the first panel."""
    width = "max(1, scale('concat_0_x', datum.end) - scale('concat_0_x', datum.t) - 6)"
    names = alt.Chart(rows(phases)).transform_filter("datum.name")
    chart: alt.Chart = names.mark_text(
        align="left", baseline="top", dx=3, dy=2, fontSize=10, clip=True, limit=alt.expr(width)
    ).encode(x=x, y=alt.value(0), text=alt.Text("name:N"))
    return chart


def _lines_of(index: int, group: Sequence[Line], x: alt.X, points: int) -> alt.Chart:
    """Draw the lines of a panel with `points` points each."""
    unit = group[0].panel.unit
    scale = alt.Scale(domain=[0, 100], nice=False) if unit == "%" else alt.Scale(zero=unit != "°C")
    y = alt.Y("v:Q", scale=scale, axis=labels_axis(_AXIS_PX, tickCount=3, format="~r"))
    lines = alt.Chart(rows([_record(line, points) for line in group]), name=f"lines{index}")
    chart: alt.Chart = (
        lines.transform_flatten(["t", "v"])
        .mark_line(clip=True)
        .encode(
            x=x, y=y, detail=alt.Detail("d:N"), color=COLOUR, strokeDash=alt.StrokeDash("dash:N", scale=None)
        )
    )
    return chart


def _limit(watts: float) -> alt.Chart:
    line = alt.Chart(rows([{"v": watts}])).mark_rule(stroke=ALERT, strokeWidth=1, strokeDash=[4, 3])
    chart: alt.Chart = line.encode(y=alt.Y("v:Q"))
    return chart


def _record(line: Line, points: int) -> dict[str, Any]:
    """Return a line as one record of lists, which is much smaller than one record per reading."""
    t_s, columns = downsample(line.t_s, {"v": line.values}, points)
    gpus = positions(line.device)
    return {
        "d": line.device,
        "colour": _colour(line.device),
        "dash": list(DASHES[sum(gpus[:1]) % len(DASHES)]),
        "t": np.round(t_s, 2).tolist(),
        "v": [None if math.isnan(value) else value for value in columns["v"].tolist()],
    }


def _colour(device: str) -> str:
    """Return the colour of a device; several GPUs together are no GPU's."""
    gpus = positions(device)
    if len(gpus) > 1:
        return INK_2
    return gpu_colour(gpus[0]) if gpus else "var(--cpu)"


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
            cell[f"p{index}"] = f"{start:.1f} s: {', '.join(texts)} {group[0].panel.unit}" if texts else ""
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


def _legend(drawn: Sequence[Line], phases: Records, power_limit_w: float | None) -> tuple[LegendKey, ...]:
    gpus = dict.fromkeys(line.device for line in drawn if positions(line.device))
    keys = []
    if len(gpus) > 1:
        keys = [LegendKey(colour=_colour(gpu), shape="line", name=device_name(gpu)) for gpu in gpus]
    kinds = dict.fromkeys(phase["kind"] for phase in phases)
    keys += [LegendKey(colour=phase_colour(kind), shape="bar", name=kind) for kind in kinds]
    if power_limit_w is not None and any(line.panel.unit == "W" for line in drawn):
        keys.append(LegendKey(colour=ALERT, shape="dash", name="power limit"))
    return tuple(keys)


def _table(drawn: Sequence[Line]) -> Table:
    result = []
    for line in drawn:
        figures = (float(reduce(line.values)) for reduce in (np.nanmin, np.nanmean, np.nanmax))
        cells = (f"{numbers.number(value)}{numbers.SPACE}{line.panel.unit}" for value in figures)
        result.append((f"{line.panel.title} ({device_name(line.device)})", *cells))
    return Table(header=("Metric", "Minimum", "Mean", "Maximum"), rows=tuple(result))


def soaked(trial: Trial) -> Trial:
    """Return a trial that saturated a device with its speed and clock as telemetry of their own."""
    ends = np.array([window.end_ns for window in trial.windows], np.int64)
    lengths = np.array([window.end_ns - window.start_ns for window in trial.windows])
    speed = np.array([window.steps for window in trial.windows]) / lengths
    added = [
        Series(source=SOAK, device=trial.device, t_ns=ends, columns={"speed": 100 * speed / speed.max()})
    ]
    for series in trial.telemetry:
        if series.source == "nvml" and "sm_clock_mhz" in series.columns:
            columns = {"sm_clock_mhz": series.columns["sm_clock_mhz"]}
            added.append(replace(series, source=SOAK, columns=columns))
    return replace(trial, telemetry=(*added, *trial.telemetry))
