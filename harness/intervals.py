"""Intervals of medians of a few values: what a page shows, and what decides when a run has measured enough.

The interval of a median is Student's t on the logarithms, because speeds are positive and their noise is
multiplicative (Student 1908, "The probable error of a mean"). It is widened if necessary to include the median. Users
run three to ten trials; a percentile bootstrap of so few cannot extend beyond the observed range. Simulated
coverage of 95 % intervals with 5 % log-normal noise (repeated in tests/test_analysis_stats.py):

    n                             3     4     5     7    10
    percentile bootstrap       0.75  0.88  0.94  0.86  0.94
    Student's t on logarithms  0.94  0.94  0.95  0.95  0.95
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import Estimate


def estimate(values: Sequence[float], unit: str) -> Estimate | None:
    """Return the median of independent values with its 95 % interval; None without finite values.

    A single value has no interval: `low` and `high` equal it and `n` is 1.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    if array.size == 0:
        return None
    median = float(np.median(array))
    low, high = _interval(array, median)
    return Estimate(median=median, low=min(low, median), high=max(high, median), n=int(array.size), unit=unit)


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the interval / median; infinite for fewer than two values."""
    result = estimate(values, "")
    width = result.half_width if result else None
    return math.inf if width is None else width


def _interval(array: NDArray[np.float64], median: float) -> tuple[float, float]:
    if array.size == 1:
        return median, median
    if not (array > 0).all():
        middle, half = _student(array)
        return middle - half, middle + half
    middle, half = _student(np.log(array))
    return math.exp(middle - half), math.exp(middle + half)


def _student(array: NDArray[np.float64]) -> tuple[float, float]:
    spread = float(array.std(ddof=1))
    return float(array.mean()), t_quantile(array.size - 1) * spread / math.sqrt(array.size)


def t_quantile(degrees: float, tail: float = 0.025) -> float:
    """Return the quantile of Student's t with upper tail probability `tail`."""
    # SciPy takes a second to import, which would delay the start of runs.
    from scipy.special import stdtrit  # noqa: PLC0415

    return -float(stdtrit(degrees, tail))
