"""Intervals of medians of a few values: what a page shows, and what decides when a run has measured enough.

The interval of a median is Student's t on the logarithms, because speeds are positive and their noise is
multiplicative (Student 1908, "The probable error of a mean"). It is widened if necessary to include the median. A
percentile bootstrap of so few values cannot extend beyond the observed range.

Two or three values say little about their own spread, and the t quantile multiplies it by up to 12.7. All speeds of a
run on its CPUs, or on its GPUs, were read in the same minutes, so their spreads resemble each other, and each is an
average of its own and of what is usual there. How much weight the usual has is estimated from how much the spreads
differ: they are taken as scaled inverse chi-squared (Smyth 2004, "Linear models and empirical Bayes methods", section
6.2). It counts for no more values than the run has other speeds, because few spreads that happen to agree prove
little.

Simulated coverage of 95 % intervals, and their width over that of Student's t alone; the standard deviations of
eight speeds are equal, or differ by a factor of 1.6 (one sigma); repeated in tests/test_analysis_ratios.py:

    n                          2            3            5
    equal                  0.94, 0.28   0.95, 0.61   0.95, 0.82
    factor of 1.6          0.92, 0.31   0.94, 0.65   0.94, 0.83
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import Estimate
from harness.model.device import CPU, GPU, device_kind

# Values that agree exactly, such as rounded ones, are taken to differ by this share of what is usual.
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviation of the logarithm of a value, and its degrees of freedom; 0 if unknown."""

    deviation: float = 0.0
    degrees: float = 0.0

    def joined(self, other: Spread) -> Spread:
        """Return the average of two spreads, weighted by their degrees of freedom."""
        degrees = self.degrees + other.degrees
        if not degrees:
            return Spread()
        squares = self.degrees * self.deviation**2 + other.degrees * other.deviation**2
        return Spread(deviation=math.sqrt(squares / degrees), degrees=degrees)

    def of_difference(self, other: Spread) -> Spread:
        """Return the spread of the difference of two logarithms."""
        return Spread(
            deviation=math.hypot(self.deviation, other.deviation), degrees=min(self.degrees, other.degrees)
        )

    def times(self, factor: float) -> Spread:
        """Return a spread so many times as wide."""
        return Spread(deviation=self.deviation * factor, degrees=self.degrees)


UNKNOWN = Spread()


def own_spread(logs: NDArray[np.float64]) -> Spread:
    """Return the spread of n logarithms."""
    return Spread(deviation=float(logs.std(ddof=1)), degrees=logs.size - 1) if logs.size > 1 else UNKNOWN


def usual_spread(groups: Iterable[Sequence[float]]) -> Spread:
    """Return what is usual among the spreads of several speeds, with the weight that it has beside one's own.

    Args:
        groups: the positive values of each speed; those with fewer than two say nothing.
    """
    logs_of = (
        np.log(np.asarray(values, np.float64)) for values in groups if len(values) > 1 and min(values) > 0
    )
    spreads = [own_spread(logs) for logs in logs_of]
    known = [each for each in spreads if each.deviation > 0]
    if len(spreads) < 2 or not known:
        return UNKNOWN
    from scipy.special import polygamma, psi  # noqa: PLC0415 - see t_quantile

    degrees = np.array([each.degrees for each in spreads])
    least = _LEAST_SPREAD * float(np.median([each.deviation for each in known]))
    logs = (
        np.log([max(each.deviation, least) ** 2 for each in spreads]) - psi(degrees / 2) + np.log(degrees / 2)
    )
    differ = float(logs.var(ddof=1) - polygamma(1, degrees / 2).mean())
    level, weight = float(logs.mean()), math.inf
    if differ > 0:
        weight = 2 * _inverse_trigamma(differ)
        level += float(psi(weight / 2)) - math.log(weight / 2)
    return Spread(deviation=math.exp(level / 2), degrees=min(weight, len(spreads) - 1.0))


def usual_by_kind(speeds: Iterable[tuple[str, Sequence[float]]]) -> Mapping[str, Spread]:
    """Return what is usual on CPUs and on GPUs, by kind of device.

    Args:
        speeds: the device of each speed and its positive values.
    """
    groups: dict[str, list[Sequence[float]]] = {CPU: [], GPU: []}
    for device, values in speeds:
        groups[device_kind(device)].append(values)
    return {kind: usual_spread(values) for kind, values in groups.items()}


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = `value`, which falls from infinity to 0."""
    from scipy.optimize import brentq  # noqa: PLC0415 - see t_quantile
    from scipy.special import polygamma  # noqa: PLC0415

    return float(brentq(lambda x: float(polygamma(1, x)) - value, 1e-4, 1e8))


def estimate(values: Sequence[float], unit: str, usual: Spread = UNKNOWN) -> Estimate | None:
    """Return the median of independent values with its 95 % interval; None without finite values.

    A single value has no interval: `low` and `high` equal it and `n` is 1.

    Args:
        usual: the spread that values of this kind have, from `usual_spread`.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    if array.size == 0:
        return None
    median = float(np.median(array))
    low, high = _interval(array, median, usual)
    return Estimate(
        median=median, low=min(low, median), high=max(high, median), n=int(array.size), unit=unit,
        shared=usual.degrees if array.size > 1 and (array > 0).all() else 0.0,
    )  # fmt: skip


def half_width(values: Sequence[float], usual: Spread = UNKNOWN) -> float:
    """Return half the width of the interval / median; infinite for fewer than two values."""
    result = estimate(values, "", usual)
    width = result.half_width if result else None
    return math.inf if width is None else width


def _interval(array: NDArray[np.float64], median: float, usual: Spread) -> tuple[float, float]:
    if array.size == 1:
        return median, median
    if not (array > 0).all():
        middle, half = _student(array, UNKNOWN)
        return middle - half, middle + half
    middle, half = _student(np.log(array), usual)
    return math.exp(middle - half), math.exp(middle + half)


def _student(array: NDArray[np.float64], usual: Spread) -> tuple[float, float]:
    spread = own_spread(array).joined(usual)
    return float(array.mean()), t_quantile(spread.degrees) * spread.deviation / math.sqrt(array.size)


def t_quantile(degrees: float, tail: float = 0.025) -> float:
    """Return the quantile of Student's t with upper tail probability `tail`."""
    # SciPy takes a second to import, which would delay the start of runs.
    from scipy.special import stdtrit  # noqa: PLC0415

    return -float(stdtrit(degrees, tail))
