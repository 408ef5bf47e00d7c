"""Telemetry held against windows: what a series read while a variant was in steady state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model.run import CPU, Series, Trial
from harness.telemetry.metrics import BIT_MASKS, COUNTERS

SECOND_NS = 1_000_000_000
# One column for each CPU: hundreds on a large host, and a container's threads wander between them.
PER_CORE = "cores"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def steady_means(trial: Trial) -> dict[str, dict[str, float]]:
    """Return variant -> "source.device.metric" -> mean over the variant's windows.

    A counter, whose mean would say nothing, becomes its increase over the windows divided by their length
    and is named with "_per_s" at its end. A metric without a reading in a variant's windows is absent, and so is
    a counter that was read less often than windows are long: its increase would be partly other variants'.
    """
    steady = _steady(trial)
    means: dict[str, dict[str, float]] = {variant: {} for variant in steady.variants}
    for series in trial.telemetry:
        if series.device != PER_CORE and len(series.t_ns) and steady.variants:
            for name, by_variant in _means(series, steady):
                for variant, value in zip(steady.variants, by_variant.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - false for NaN only
                        means[variant][f"{series.source}.{series.device}.{name}"] = value
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """A trial's windows in the order of time, n of them; made once, since every series is held against it.

    Attributes:
        variants: in the order in which they first came.
        codes: each window's place in `variants`.
        starts_ns, ends_ns: each window's two ends.
    """

    variants: tuple[str, ...]
    codes: Ints
    starts_ns: Ints
    ends_ns: Ints


def _steady(trial: Trial) -> _Steady:
    windows = sorted(trial.windows, key=lambda window: window.start_ns)
    codes = {
        variant: code for code, variant in enumerate(dict.fromkeys(window.variant for window in windows))
    }
    return _Steady(
        variants=tuple(codes),
        codes=np.array([codes[window.variant] for window in windows], dtype=np.int64),
        starts_ns=np.array([window.start_ns for window in windows], dtype=np.int64),
        ends_ns=np.array([window.end_ns for window in windows], dtype=np.int64),
    )


def _means(series: Series, steady: _Steady) -> Iterator[tuple[str, Floats]]:
    variants = len(steady.variants)
    tick_codes = _tick_codes(series.t_ns, steady)
    inside = tick_codes >= 0
    for name, values in series.columns.items():
        if name in BIT_MASKS:
            continue
        if name in COUNTERS:
            yield f"{name}_per_s", _rates(series, name, steady)
            continue
        good = inside & np.isfinite(values)
        sums = np.bincount(tick_codes[good], weights=values[good], minlength=variants)
        counts = np.bincount(tick_codes[good], minlength=variants)
        with np.errstate(invalid="ignore", divide="ignore"):
            yield name, sums / counts


def _tick_codes(t_ns: Ints, steady: _Steady) -> Ints:
    """Return for each tick the code of the variant whose window it falls into, -1 outside all windows.

    A reading may speak of all the time since the one before (utilisation, GPM), so a tick counts only when
    that one too lay in the window: else a variant would get some of its neighbour's load. Variants that are read too
    rarely for that keep every tick.
    """
    at = np.searchsorted(steady.starts_ns, t_ns, side="right") - 1
    codes = steady.codes[at]
    inside = (at >= 0) & (t_ns <= steady.ends_ns[at])
    whole = inside & (np.concatenate((t_ns[:1], t_ns[:-1])) >= steady.starts_ns[at])
    rare = np.bincount(codes[whole], minlength=len(steady.variants)) == 0
    return np.where(whole | (inside & rare[codes]), codes, -1)


def _rates(series: Series, name: str, steady: _Steady) -> Floats:
    variants, codes = len(steady.variants), steady.codes
    increases = grown(series.t_ns, series.columns[name], steady.starts_ns, steady.ends_ns)
    seconds = (steady.ends_ns - steady.starts_ns) / SECOND_NS
    read_ns = series.t_ns[np.isfinite(series.columns[name])]
    apart_s = np.median(np.diff(read_ns)) / SECOND_NS if len(read_ns) > 1 else np.inf
    good = np.isfinite(increases) & (seconds >= apart_s)
    sums = np.bincount(codes[good], weights=increases[good], minlength=variants)
    lengths = np.bincount(codes[good], weights=seconds[good], minlength=variants)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / lengths


def grown(t_ns: Ints, counter: Floats, starts_ns: Ints, ends_ns: Ints) -> Floats:
    """Return how much a counter grew in each of n stretches, interpolated between its nearest readings.

    NaN where the readings do not reach around the stretch or the counter was reset in it.
    """
    good = np.isfinite(counter)
    t_ns, counter = t_ns[good], counter[good]
    if len(t_ns) < 2:
        return np.full(len(starts_ns), np.nan)
    # Relative times: float64 holds nanoseconds since boot exactly for 104 days only.
    origin = int(t_ns[0])
    times = (t_ns - origin).astype(np.float64)
    starts, ends = (starts_ns - origin).astype(np.float64), (ends_ns - origin).astype(np.float64)
    more = np.interp(ends, times, counter) - np.interp(starts, times, counter)
    return np.where((starts >= 0) & (ends <= times[-1]) & (more >= 0), more, np.nan)


def core_mean(trial: Trial, variant: str, metric: str) -> float | None:
    """Return the mean of one CPU's own metric over a variant's windows, None where it was not read."""
    series = next(
        (each for each in trial.telemetry if each.device == PER_CORE and metric in each.columns), None
    )
    steady = _steady(trial)
    if series is None or variant not in steady.variants or not len(series.t_ns):
        return None
    values = series.columns[metric]
    good = (_tick_codes(series.t_ns, steady) == steady.variants.index(variant)) & np.isfinite(values)
    return float(values[good].mean()) if good.any() else None


def gpu_names(device: str) -> tuple[str, ...]:
    """Return the GPUs of a trial's device: ("gpu0", "gpu1") for "gpu0+gpu1", none for "cpu"."""
    return tuple(part for part in device.split("+") if part != CPU)
