"""Energy for each sample: from a device's own counter, and by integrating power only where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.align import SECOND_NS, find, gpu_names, increase
from harness.model import Series, Trial, Window

GPU_COUNTER = "GPU energy counter"
CPU_COUNTER = "CPU package energy counter (RAPL), all that runs on the package"
# In order of trust: instant readings, the driver's own buffer, then averages that lag about a second behind.
_POWER = (
    ("nvml", "power_instant_w", "integrated instant GPU power"),
    ("nvml_power", "power_usage_w", "integrated GPU power samples of the driver"),
    ("nvml", "power_usage_w", "integrated GPU power"),
    ("nvml", "power_average_w", "integrated average GPU power"),
)


def energy_per_sample(trial: Trial, leg: str) -> tuple[float, str] | None:
    """Return joules a sample over a leg's windows, all the trial's cards together, and where they come from.

    None where some card has neither a counter nor power readings around any of the windows.
    """
    windows = [window for window in trial.windows if window.leg == leg and window.samples > 0]
    if not windows:
        return None
    cards = gpu_names(trial.device)
    if not cards:
        return _packages(trial, windows)
    counters = [find(trial, "nvml", card, "energy_j") for card in cards]
    whole = [series for series in counters if series is not None]
    joules = _per_sample(whole, windows) if len(whole) == len(cards) else None
    if joules is not None:
        return joules, GPU_COUNTER
    for source, metric, label in _POWER:
        powers = [one for card in cards if (one := find(trial, source, card, metric)) is not None]
        if len(powers) == len(cards):
            joules = _per_sample([_integrated(one, metric) for one in powers], windows)
            if joules is not None:
                return joules, label
    return None


def _packages(trial: Trial, windows: Sequence[Window]) -> tuple[float, str] | None:
    """Sum the packages and their memory; RAPL's other zones are parts of a package or hold all of it."""
    series = [
        one
        for one in trial.telemetry
        if one.source == "rapl"
        and one.device.startswith("package")
        and "_" not in one.device.removesuffix("_dram")
    ]
    found = _per_sample(series, windows) if series else None
    return None if found is None else (found, CPU_COUNTER)


def _per_sample(series: Sequence[Series], windows: Sequence[Window]) -> float | None:
    joules = np.sum([increase(one.t_ns, one.columns["energy_j"], windows) for one in series], axis=0)
    samples = np.array([window.samples for window in windows], dtype=np.float64)
    good = np.isfinite(joules)
    return float(joules[good].sum() / samples[good].sum()) if good.any() else None


def _integrated(series: Series, metric: str) -> Series:
    """Turn power into a counter of joules by the trapezoidal rule over its readings."""
    good = np.isfinite(series.columns[metric])
    t_ns, power = series.t_ns[good], series.columns[metric][good]
    seconds = np.diff(t_ns) / SECOND_NS
    joules = np.concatenate(([0.0], np.cumsum((power[1:] + power[:-1]) / 2 * seconds)))
    return replace(series, t_ns=t_ns, columns={"energy_j": joules})
