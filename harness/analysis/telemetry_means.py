"""Means of telemetry over the windows of a trial's variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import Reading
from harness.model.metrics import MetricKind, is_kind
from harness.model.run import Series, Trial

SECOND_NS = 1_000_000_000
# The device with one column per CPU: hundreds on a large host, and threads migrate between them.
PER_CORE = "cores"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def steady_means(trial: Trial) -> dict[str, dict[Reading, float]]:
    """Return the means of each variant over its windows.

    Counters become rates: their increase over the windows / length of the windows, with "_per_s" appended to
    the name. A metric without readings in a variant's windows is absent. A window shorter than the interval between
    the readings around its start or end is left out, because the increase would include other variants.
    """
    steady = _steady(trial)
    means: dict[str, dict[Reading, float]] = {variant: {} for variant in steady.variants}
    for series in trial.telemetry:
        if series.device != PER_CORE and len(series.t_ns) and steady.variants:
            for name, by_variant in _window_means(series, steady):
                for variant, value in zip(steady.variants, by_variant.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - false for NaN only
                        means[variant][Reading(series.source, series.device, name)] = value
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The windows of a trial in time order, as arrays of equal length.

    Attributes:
        variants: in the order in which they first ran.
        codes: position of each window's variant in `variants`.
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


def _window_means(series: Series, steady: _Steady) -> Iterator[tuple[str, Floats]]:
    variants = len(steady.variants)
    tick_codes = _tick_codes(series.t_ns, steady)
    inside = tick_codes >= 0
    for name, values in series.columns.items():
        if is_kind(name, MetricKind.BITS):
            continue
        if is_kind(name, MetricKind.COUNTER):
            yield f"{name}_per_s", _window_rates(series, name, steady)
            continue
        good = inside & np.isfinite(values)
        sums = np.bincount(tick_codes[good], weights=values[good], minlength=variants)
        counts = np.bincount(tick_codes[good], minlength=variants)
        with np.errstate(invalid="ignore", divide="ignore"):
            yield name, sums / counts


def _tick_codes(t_ns: Ints, steady: _Steady) -> Ints:
    """Return the variant code of the window that each tick falls into, -1 outside all windows.

    Some readings cover the time since the previous one (utilisation, GPM). A tick therefore counts only if
    the previous tick was in the same window; otherwise load of the preceding variant would be included.
    Variants with too few readings for this rule keep all their ticks.
    """
    at = np.searchsorted(steady.starts_ns, t_ns, side="right") - 1
    codes = steady.codes[at]
    inside = (at >= 0) & (t_ns <= steady.ends_ns[at])
    whole = inside & (np.concatenate((t_ns[:1], t_ns[:-1])) >= steady.starts_ns[at])
    rare = np.bincount(codes[whole], minlength=len(steady.variants)) == 0
    return np.where(whole | (inside & rare[codes]), codes, -1)


def _window_rates(series: Series, name: str, steady: _Steady) -> Floats:
    variants, codes = len(steady.variants), steady.codes
    increases = counter_increases(series.t_ns, series.columns[name], steady.starts_ns, steady.ends_ns)
    seconds = (steady.ends_ns - steady.starts_ns) / SECOND_NS
    good = np.isfinite(increases)
    sums = np.bincount(codes[good], weights=increases[good], minlength=variants)
    lengths = np.bincount(codes[good], weights=seconds[good], minlength=variants)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / lengths


def counter_increases(t_ns: Ints, counter: Floats, starts_ns: Ints, ends_ns: Ints) -> Floats:
    """Return the increase of a counter in each of n intervals, interpolated between readings.

    NaN if the readings do not cover the interval, are further apart at its ends than it is long, or the counter
    was reset in it.
    """
    good = np.isfinite(counter)
    t_ns, counter = t_ns[good], counter[good]
    if len(t_ns) < 2:
        return np.full(len(starts_ns), np.nan)
    # Relative times, because float64 represents nanoseconds since boot exactly for only 104 days.
    origin = int(t_ns[0])
    times = (t_ns - origin).astype(np.float64)
    starts, ends = (starts_ns - origin).astype(np.float64), (ends_ns - origin).astype(np.float64)
    increases = np.interp(ends, times, counter) - np.interp(starts, times, counter)
    apart = np.diff(times, append=times[-1])
    at_start, at_end = (apart[np.searchsorted(times, edges, side="right") - 1] for edges in (starts, ends))
    covered = (starts >= 0) & (ends <= times[-1]) & (np.maximum(at_start, at_end) <= ends - starts)
    return np.where(covered & (increases >= 0), increases, np.nan)


def core_mean(trial: Trial, variant: str, metric: str) -> float | None:
    """Return the mean of a per-CPU metric over a variant's windows, or None without readings."""
    series = next(
        (each for each in trial.telemetry if each.device == PER_CORE and metric in each.columns), None
    )
    steady = _steady(trial)
    if series is None or variant not in steady.variants or not len(series.t_ns):
        return None
    values = series.columns[metric]
    good = (_tick_codes(series.t_ns, steady) == steady.variants.index(variant)) & np.isfinite(values)
    return float(values[good].mean()) if good.any() else None
