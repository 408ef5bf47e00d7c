"""What one trial's timeline draws: its telemetry by panel, its phases, and when GPUs were throttled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Series, Trial
from harness.run.thinning import thin
from reports.names import THROTTLE_REASONS, device_name, is_gpu, phase_name, throttle_names, variant_name
from reports.stretches import stretches
from workloads.protocol import (
    BASELINE,
    EVALUATE,
    FIRST_STEP,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    STAGE_PREFIX,
    STEADY,
    TUNED,
    WARM_UP,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One quantity through time.

    Attributes:
        metrics: names in order of preference; of each device the first that was read is drawn.
        sources: which sources count; () is any.
        only: "cpu" or "gpu" to leave the panel out of the other kind's trials.
        scale: what values are multiplied by to come in `unit`.
        decimals: how many are kept.
        top: the axis' upper end where it is known.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    sources: tuple[str, ...] = ()
    only: str = ""
    scale: float = 1.0
    decimals: int = 0
    top: float | None = None


PANELS = (
    Panel(title="CPU busy", unit="%", metrics=("cpu_util_pct",), sources=("host",), decimals=1, top=100),
    Panel(title="GPU utilisation", unit="%", metrics=("gpu_util_pct",), top=100),
    Panel(title="SM activity", unit="%", metrics=("sm_util_pct",), decimals=1, top=100),
    Panel(title="GPU power", unit="W", metrics=("power_instant_w", "power_usage_w", "power_average_w")),
    Panel(title="GPU temperature", unit="°C", metrics=("temperature_c",)),
    Panel(title="SM clock", unit="MHz", metrics=("sm_clock_mhz",)),
    Panel(title="CPU clock", unit="MHz", metrics=("cpu_freq_mhz",), only="cpu"),
    Panel(title="Memory of the container", unit="GiB", metrics=("mem_used_bytes",), sources=("cgroup",),
          only="cpu", scale=2.0**-30, decimals=2),
    Panel(title="Memory of the process", unit="GiB", metrics=("mem_rss_bytes",), only="cpu", scale=2.0**-30,
          decimals=2),
)  # fmt: skip

_BANDS = {
    FIRST_STEP: ("first step", "var(--ph-first)"),
    WARM_UP: ("warm-up", "var(--ph-warm)"),
    EVALUATE: ("evaluation", "var(--ph-evaluate)"),
}
_STEADY = {
    BASELINE: "var(--ph-written)",
    INPUT_ONLY: "var(--ph-input)",
    MODEL_ONLY: "var(--ph-model)",
    TUNED: "var(--ph-tuned)",
}
_START = ("start-up", "var(--ph-start)")
_TOUCHING_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One device's readings in one panel: seconds since the trial began, values in the panel's unit."""

    panel: int
    source: str
    device: str
    metric: str
    t_s: Floats
    values: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A stretch of time that is shaded: `kind` is its legend entry, `label` says more."""

    kind: str
    colour: str
    label: str
    start_s: float
    end_s: float


def lines(trial: Trial) -> tuple[Line, ...]:
    """Find what each panel draws of each device, in the panels' order."""
    kind = "gpu" if is_gpu(trial.device) else "cpu"
    found = []
    for number, panel in enumerate(PANELS):
        if panel.only in ("", kind):
            found += list(_panel_lines(trial, number, panel))
    return tuple(found)


def _panel_lines(trial: Trial, number: int, panel: Panel) -> Iterator[Line]:
    devices = dict.fromkeys(series.device for series in trial.telemetry)
    for device in devices:
        for metric in panel.metrics:
            series = _finest(trial, device, metric, panel.sources)
            if series is not None:
                t_s = (series.t_ns - trial.started_ns) / 1e9
                values = series.columns[metric] * panel.scale
                yield Line(
                    panel=number, source=series.source, device=device, metric=metric, t_s=t_s, values=values
                )  # fmt: skip
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


def records(found: tuple[Line, ...], points: int) -> list[dict[str, Any]]:
    """Thin lines out and round them for drawing.

    Returns:
        One record for each source and device: "d" the device, "t" seconds, and "p<panel>" the values of
        each panel that it is drawn in, null where there is a gap.
    """
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in found:
        groups.setdefault((line.source, line.device), []).append(line)
    made = []
    for (_, device), group in groups.items():
        t_s, columns = thin(group[0].t_s, {f"p{line.panel}": line.values for line in group}, points)
        record: dict[str, Any] = {"d": device, "t": _shortened(np.round(t_s, 2))}
        for line in group:
            name = f"p{line.panel}"
            record[name] = _shortened(np.round(columns[name], PANELS[line.panel].decimals))
        made.append(record)
    return made


def _shortened(values: Floats) -> list[float | int | None]:
    return [None if math.isnan(value) else _short(value) for value in values.tolist()]


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value


def bands(trial: Trial) -> tuple[Band, ...]:
    """Say what the trial did when; phases next to each other that look alike become one band."""
    found: list[Band] = []
    for phase in sorted(trial.phases, key=lambda each: each.start_ns):
        if phase.name == STEADY:
            kind, colour = _steady(phase.variant)
        else:
            kind, colour = _BANDS.get(phase.name, _START)
        start, end = ((moment - trial.started_ns) / 1e9 for moment in (phase.start_ns, phase.end_ns))
        label = " of ".join(filter(None, (phase_name(phase.name), variant_name(phase.variant))))
        if found and found[-1].kind == kind and abs(start - found[-1].end_s) < _TOUCHING_S:
            before = found.pop()
            start, label = before.start_s, _joined(before.label, label)
        found.append(Band(kind=kind, colour=colour, label=label, start_s=start, end_s=end))
    return tuple(found)


def _steady(variant: str) -> tuple[str, str]:
    if variant.startswith(OPTIMIZATION_PREFIX):
        return "tuning steps", "var(--ph-optimization)"
    if variant.startswith(STAGE_PREFIX):
        return "input stages", "var(--ph-stage)"
    return variant_name(variant), _STEADY.get(variant, "var(--ph-other)")


def _joined(before: str, label: str) -> str:
    return before if label in before.split(", ") else f"{before}, {label}"


def throttled(trial: Trial) -> tuple[Band, ...]:
    """Find when a GPU's clocks were held down, by the reasons that NVML gave."""
    found = []
    for series in trial.telemetry:
        reasons = series.columns.get("throttle_reasons")
        if reasons is None:
            continue
        bits = np.nan_to_num(reasons).astype(np.int64)
        held = (bits & sum(THROTTLE_REASONS)) != 0
        t_s = (series.t_ns - trial.started_ns) / 1e9
        for start, end, first in stretches(t_s, held):
            label = f"{device_name(series.device)}: {', '.join(throttle_names(int(bits[first])))}"
            found.append(Band(kind="throttled", colour="var(--alert)", label=label, start_s=start, end_s=end))
    return tuple(found)


def extremes(line: Line) -> Mapping[str, float]:
    """Give the least, mean and greatest of a line's readings."""
    return {
        "least": float(np.nanmin(line.values)),
        "mean": float(np.nanmean(line.values)),
        "greatest": float(np.nanmax(line.values)),
    }
