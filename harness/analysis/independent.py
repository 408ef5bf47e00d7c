"""Runs against each other: trials of different runs are independent samples, compared on logarithms.

Speeds are positive and their noise is a factor, so that the difference of mean logarithms is the ratio of
geometric means, and its interval is Welch's (Welch 1947, "The generalization of Student's problem when
several different population variances are involved").

A run that was repeated until its interval was narrow stopped when its trials happened to agree: their
spread is too small by then (Anscombe 1953, "Sequential estimation"). Simulated with the profile's own rule
(three to seven trials, `make power` does it again), Welch's 95 % interval alone called 9.5 % of comparisons
of like with like different, at 3 % of noise; with the standard error of such a run taken STOPPED_WIDER times
as wide it is at most 5 % at any noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.stats import t_quantile
from harness.model.analysis import Estimate

STOPPED_WIDER = 1.25
LEVEL = 0.05
# Of a slowdown that is there, how many comparisons may miss it.
MISSED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Logarithms of independent values: their mean, the variance of one, and their number."""

    mean: float
    variance: float
    n: int

    def estimate(self, unit: str) -> Estimate:
        """Return the geometric mean with its 95 % interval."""
        return replace(gap_to(self, 0.0).estimate(), unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A difference of mean logarithms, its standard error, and Welch's degrees of freedom.

    `n` is the smaller side's; under two there is no error and no degree of freedom.
    """

    log: float
    error: float
    degrees: float
    n: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.n > 1

    def half(self, level: float = LEVEL) -> float:
        """Return half the width of the interval that leaves out `level`, in logarithms."""
        return t_quantile(self.degrees, level / 2) * self.error

    def estimate(self, level: float = LEVEL) -> Estimate:
        """Return the ratio with its interval."""
        half = self.half(level) if self.known else 0.0
        return Estimate(
            median=math.exp(self.log),
            low=math.exp(self.log - half),
            high=math.exp(self.log + half),
            n=self.n,
            unit="ratio",
        )

    def detectable(self, level: float = LEVEL) -> float | None:
        """Return the smallest slowdown, as a share, that is found all but MISSED of the time.

        Half of MISSED is for the interval's upper end being above 1, half for its lower end being above
        the slowdown itself (Bloom 1995, "Minimum detectable effects").
        """
        if not self.known:
            return None
        reach = t_quantile(self.degrees, level / 2) + t_quantile(self.degrees, MISSED / 2)
        return -math.expm1(-reach * self.error)


def sample(values: Sequence[float], *, adaptive: bool = False) -> Sample | None:
    """Return the logarithms of a run's trials; None when there are none above zero.

    Args:
        values: one a trial.
        adaptive: whether their number was left to the width of the interval.
    """
    logs = np.log([value for value in values if value > 0 and math.isfinite(value)])
    if logs.size == 0:
        return None
    variance = float(logs.var(ddof=1)) if logs.size > 1 else 0.0
    wider = STOPPED_WIDER**2 if adaptive else 1.0
    return Sample(mean=float(logs.mean()), variance=variance * wider, n=int(logs.size))


def gap(top: Sample, bottom: Sample) -> Gap:
    """Return how far two independent samples lie apart."""
    parts = ((top.variance / top.n, top.n - 1), (bottom.variance / bottom.n, bottom.n - 1))
    return _gap(top.mean - bottom.mean, parts, min(top.n, bottom.n))


def gap_to(top: Sample, fixed: float) -> Gap:
    """Return how far a sample lies from a number taken as it is, as the median of many runs."""
    return _gap(top.mean - fixed, ((top.variance / top.n, top.n - 1),), top.n)


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Return the mean of independent differences, whose exponential is a geometric mean of ratios."""
    parts = tuple(((each.error / len(gaps)) ** 2, each.degrees) for each in gaps)
    return _gap(sum(each.log for each in gaps) / len(gaps), parts, min(each.n for each in gaps))


def _gap(log: float, parts: Sequence[tuple[float, float]], n: int) -> Gap:
    """Put independent variances together, each with its degrees of freedom (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    if n < 2:
        return Gap(log=log, error=0.0, degrees=0.0, n=n)
    weights = sum(variance**2 / degrees for variance, degrees in parts if degrees)
    degrees = total**2 / weights if weights > 0 else float(min(degrees for _, degrees in parts))
    return Gap(log=log, error=math.sqrt(total), degrees=degrees, n=n)
