"""Medians, intervals and tests for a handful of repeated trials. Pure and, where random, seeded.

How the interval is chosen. Users run three to ten trials, and at that size the percentile bootstrap of a
median covers far less than it says: it cannot leave the range of what it saw. Simulated over log-normal
noise of 5 % (tests/test_analysis_stats.py does it again), 95 % intervals covered

    n                             3     4     5     7    10
    percentile bootstrap       0.75  0.88  0.94  0.86  0.94
    Student's t on logarithms  0.94  0.94  0.95  0.95  0.95

so that below SMALL trials the interval is Student's on the logarithms (speeds are positive and their
noise is a factor; Student 1908, "The probable error of a mean"), widened where needed to hold the median.
From SMALL on it is the percentile bootstrap of the median (Efron & Tibshirani 1993, chapter 13), which
presumes no shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import Estimate

SMALL = 15
RESAMPLES = 2000
SEED = 20_240_229


def estimate(values: Sequence[float], unit: str) -> Estimate | None:
    """Return the median of independent values with its 95 % interval; None when there are no values.

    One value has no interval: `low` and `high` are then the value itself and `n` is 1.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    if array.size == 0:
        return None
    median = float(np.median(array))
    low, high = _interval(array, median)
    return Estimate(median=median, low=min(low, median), high=max(high, median), n=int(array.size), unit=unit)


def _interval(array: NDArray[np.float64], median: float) -> tuple[float, float]:
    if array.size == 1:
        return median, median
    if array.size >= SMALL:
        return _bootstrap(array)
    if not (array > 0).all():
        middle, half = _student(array)
        return middle - half, middle + half
    middle, half = _student(np.log(array))
    return math.exp(middle - half), math.exp(middle + half)


def _student(array: NDArray[np.float64]) -> tuple[float, float]:
    spread = float(array.std(ddof=1))
    return float(array.mean()), t_quantile(array.size - 1) * spread / math.sqrt(array.size)


def _bootstrap(array: NDArray[np.float64]) -> tuple[float, float]:
    random = np.random.default_rng(SEED)
    picks = random.integers(0, array.size, (RESAMPLES, array.size))
    low, high = np.quantile(np.median(array[picks], axis=1), (0.025, 0.975))
    return float(low), float(high)


def t_quantile(degrees: float, tail: float = 0.025) -> float:
    """Return Student's t that a share `tail` lies above."""
    # SciPy takes a second to import: what starts a run does without it.
    from scipy.special import stdtrit  # noqa: PLC0415

    return -float(stdtrit(degrees, tail))


def chi_median(degrees: int) -> float:
    """Return the median of a standard deviation of so many degrees of freedom, over the true one."""
    from scipy.special import chdtri  # noqa: PLC0415 - see t_quantile

    return float(np.sqrt(chdtri(degrees, 0.5) / degrees))


def t_tail(value: float, degrees: float) -> float:
    """Return the share of Student's t that lies above `value`."""
    from scipy.special import stdtr  # noqa: PLC0415 - see t_quantile

    return float(stdtr(degrees, -value))


def ratio(numerator: Mapping[int, float], denominator: Mapping[int, float]) -> Estimate | None:
    """Return numerator over denominator, both by trial index, with its 95 % interval.

    Trials of both sides are interleaved, so that those of one index met the same machine: the ratio is taken
    index by index, and what both sides share cancels out. With fewer than two common indices the sides
    are compared as independent samples (Welch 1947, on logarithms).
    """
    common = sorted(numerator.keys() & denominator.keys())
    if len(common) >= 2 or (common and len(numerator) == len(denominator) == 1):
        return estimate([numerator[index] / denominator[index] for index in common], "ratio")
    if not numerator or not denominator:
        return None
    top = np.log(np.fromiter(numerator.values(), dtype=np.float64))
    bottom = np.log(np.fromiter(denominator.values(), dtype=np.float64))
    median = float(np.median(top) - np.median(bottom))
    smaller = min(top.size, bottom.size)
    if smaller < 2:
        centre = math.exp(median)
        return Estimate(median=centre, low=centre, high=centre, n=1, unit="ratio")
    return _welch(top, bottom, median)


def _welch(top: NDArray[np.float64], bottom: NDArray[np.float64], median: float) -> Estimate:
    parts = np.array([top.var(ddof=1) / top.size, bottom.var(ddof=1) / bottom.size])
    error = float(parts.sum())
    weights = parts**2 / (np.array([top.size, bottom.size]) - 1)
    degrees = error**2 / float(weights.sum()) if error > 0 else 1.0
    middle = float(top.mean() - bottom.mean())
    half = t_quantile(degrees) * math.sqrt(error)
    low, high = min(middle - half, median), max(middle + half, median)
    return Estimate(
        median=math.exp(median),
        low=math.exp(low),
        high=math.exp(high),
        n=min(top.size, bottom.size),
        unit="ratio",
    )


def half_width(value: Estimate) -> float | None:
    """Return half the interval's width over the median; None when there is no interval."""
    if value.n < 2 or value.median == 0:
        return None
    return (value.high - value.low) / 2 / abs(value.median)


def narrow_enough(values: Sequence[float], target: float) -> bool:
    """Return whether the interval's half width is at most `target` of the median; never for one value."""
    found = estimate(values, "")
    width = half_width(found) if found else None
    return width is not None and width <= target


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation of one or more values; 0 for a single one."""
    array = np.asarray(values, dtype=np.float64)
    deviation = float(array.std(ddof=1)) if array.size > 1 else 0.0
    return deviation / abs(float(array.mean()) or 1)


def outliers(values: Sequence[float], least_share: float = 0.05) -> tuple[int, ...]:
    """Return the positions of values whose modified z-score exceeds 3.5 and that are off by `least_share`.

    Iglewicz & Hoaglin 1993, "How to detect and handle outliers". Under five values none can be told.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < 5:
        return ()
    median = np.median(array)
    away = np.abs(array - median)
    mad = max(float(np.median(away)), 1e-12 * abs(float(median)))
    found = (0.6745 * away / mad > 3.5) & (away > least_share * abs(median))
    return tuple(np.flatnonzero(found).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A trend over trials: `change` is last over first less one, `p` how often chance alone does it."""

    change: float
    p: float


def drift(values: Sequence[float]) -> Drift | None:
    """Return the trend of values in the order they were measured; None under four, where none can be told.

    Kendall's test (Mann 1945) and the slope of Theil and Sen (Sen 1968).
    """
    from scipy.stats import kendalltau, theilslopes  # noqa: PLC0415 - see t_quantile

    array = np.asarray(values, dtype=np.float64)
    if array.size < 4:
        return None
    order = np.arange(array.size)
    line = theilslopes(array, order)
    change = line.slope * (array.size - 1) / line.intercept if line.intercept else 0.0
    return Drift(change=float(change), p=float(kendalltau(order, array).pvalue))
