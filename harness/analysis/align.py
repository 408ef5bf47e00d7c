"""Telemetry held against windows: what a series read while a leg was in steady state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.model import Series, Trial, Window
from harness.telemetry.metrics import METRICS, Kind

SECOND_NS = 1_000_000_000
# One column for each processor: hundreds on a large host, and a container's threads wander between them.
PER_CORE = "cores"
# A mask of conditions has no mean; each condition is a metric of its own.
BITS = "bits"

Floats = NDArray[np.float64]


def steady_means(trial: Trial) -> dict[str, dict[str, float]]:
    """Return leg -> "source.device.metric" -> mean over the leg's windows.

    A counter, whose mean would say nothing, becomes its increase over the windows divided by their length
    and is named with "_per_s" at its end. A metric without a reading in a leg's windows is absent, and so is
    a counter that was read less often than windows are long: its increase would be partly other legs'.
    """
    windows = sorted(trial.windows, key=lambda window: window.start_ns)
    legs = tuple(dict.fromkeys(window.leg for window in windows))
    means: dict[str, dict[str, float]] = {leg: {} for leg in legs}
    for series in trial.telemetry:
        if series.device != PER_CORE and len(series.t_ns) and legs:
            for name, by_leg in _means(series, windows, legs):
                for leg, value in zip(legs, by_leg.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - false for NaN only
                        means[leg][f"{series.source}.{series.device}.{name}"] = value
    return means


def _means(series: Series, windows: Sequence[Window], legs: tuple[str, ...]) -> Iterator[tuple[str, Floats]]:
    codes = np.array([legs.index(window.leg) for window in windows])
    tick_codes = _tick_codes(series.t_ns, windows, codes)
    inside = tick_codes >= 0
    for name, values in series.columns.items():
        metric = METRICS.get(name)
        if metric is not None and metric.unit == BITS:
            continue
        if metric is not None and metric.kind is Kind.COUNTER:
            yield f"{name}_per_s", _rates(series, name, windows, codes, len(legs))
            continue
        good = inside & np.isfinite(values)
        sums = np.bincount(tick_codes[good], weights=values[good], minlength=len(legs))
        counts = np.bincount(tick_codes[good], minlength=len(legs))
        with np.errstate(invalid="ignore", divide="ignore"):
            yield name, sums / counts


def _tick_codes(
    t_ns: NDArray[np.int64], windows: Sequence[Window], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each tick the code of the leg whose window it falls into, -1 outside all windows.

    A reading may speak of all the time since the one before (utilisation, GPM), so a tick counts only when
    that one too lay in the window: else a leg would get some of its neighbour's load. Legs that are read too
    rarely for that keep every tick.
    """
    starts = np.array([window.start_ns for window in windows])
    ends = np.array([window.end_ns for window in windows])
    at = np.searchsorted(starts, t_ns, side="right") - 1
    inside = (at >= 0) & (t_ns <= ends[at])
    whole = inside & (np.concatenate((t_ns[:1], t_ns[:-1])) >= starts[at])
    rare = np.setdiff1d(codes, codes[at[whole]])
    return np.where(whole | (inside & np.isin(codes[at], rare)), codes[at], -1)


def _rates(
    series: Series, name: str, windows: Sequence[Window], codes: NDArray[np.int64], legs: int
) -> Floats:
    increases = increase(series.t_ns, series.columns[name], windows)
    seconds = np.array([window.end_ns - window.start_ns for window in windows]) / SECOND_NS
    read_ns = series.t_ns[np.isfinite(series.columns[name])]
    apart_s = np.median(np.diff(read_ns)) / SECOND_NS if len(read_ns) > 1 else np.inf
    good = np.isfinite(increases) & (seconds >= apart_s)
    sums = np.bincount(codes[good], weights=increases[good], minlength=legs)
    lengths = np.bincount(codes[good], weights=seconds[good], minlength=legs)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / lengths


def increase(t_ns: NDArray[np.int64], counter: Floats, windows: Sequence[Window]) -> Floats:
    """Return how much a counter grew in each window, interpolated between its nearest readings.

    NaN where the readings do not reach around the window or the counter was reset in it.
    """
    good = np.isfinite(counter)
    t_ns, counter = t_ns[good], counter[good]
    if len(t_ns) < 2:
        return np.full(len(windows), np.nan)
    # Relative times: float64 holds nanoseconds since boot exactly for 104 days only.
    origin = int(t_ns[0])
    times = (t_ns - origin).astype(np.float64)
    starts = np.array([window.start_ns - origin for window in windows], dtype=np.float64)
    ends = np.array([window.end_ns - origin for window in windows], dtype=np.float64)
    grown = np.interp(ends, times, counter) - np.interp(starts, times, counter)
    return np.where((starts >= 0) & (ends <= times[-1]) & (grown >= 0), grown, np.nan)


def core_mean(trial: Trial, leg: str, metric: str) -> float | None:
    """Return the mean of one processor's own metric over a leg's windows, None where it was not read."""
    series = next((one for one in trial.telemetry if one.device == PER_CORE and metric in one.columns), None)
    windows = sorted(trial.windows, key=lambda window: window.start_ns)
    if series is None or not windows or not len(series.t_ns):
        return None
    legs = tuple(dict.fromkeys(window.leg for window in windows))
    codes = np.array([legs.index(window.leg) for window in windows])
    if leg not in legs:
        return None
    values = series.columns[metric]
    good = (_tick_codes(series.t_ns, windows, codes) == legs.index(leg)) & np.isfinite(values)
    return float(values[good].mean()) if good.any() else None


def find(trial: Trial, source: str, device: str, metric: str) -> Series | None:
    """Return the series that has `metric` with at least two readings, or None."""
    for series in trial.telemetry:
        if series.source == source and series.device == device and metric in series.columns:
            return series if np.isfinite(series.columns[metric]).sum() >= 2 else None
    return None


def gpu_names(device: str) -> tuple[str, ...]:
    """Return the cards of a trial's device: ("gpu0", "gpu1") for "gpu0+gpu1", none for "cpu"."""
    return tuple(part for part in device.split("+") if part != "cpu")


def mean_of(values: Mapping[str, float], keys: Sequence[str]) -> float | None:
    """Return the mean of those keys that are there, None when none is."""
    found = [values[key] for key in keys if key in values]
    return sum(found) / len(found) if found else None
