"""Speeds over other speeds, compared on logarithms: trial by trial, or as independent samples.

Speeds are positive and their noise is a factor. Trials of one run are interleaved, so that those of one index met
the same machine. Runs are independent samples: the interval is Welch's (Welch 1947, "The generalization of
Student's problem when several different population variances are involved"), the ratio that of the medians.

A run that was repeated until its interval was narrow stopped when its trials happened to agree: their
spread is too small by then (Anscombe 1953, "Sequential estimation"). Simulated with the profile's own rule
(three to seven trials, `make power` does it again), Welch's 95 % interval alone called 9.5 % of comparisons
of like with like different, at 3 % of noise; with the standard error of such a run taken STOPPED_WIDER times
as wide it is at most 5 % at any noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.align import gpu_names
from harness.analysis.measures import Measures, by_index
from harness.analysis.stats import estimate, t_quantile
from harness.model.analysis import Comparison, Estimate, Key, RatioKind
from harness.model.run import CPU
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED, changes_baseline

STOPPED_WIDER = 1.25
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Logarithms of independent values: their mean and median, the variance of one, and their number."""

    mean: float
    median: float
    variance: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far two samples lie apart on logarithms.

    Attributes:
        mean, median: the differences of their means, around which the interval lies, and of their medians.
        error, degrees: standard error and degrees of freedom; 0 where a side has a single value.
        n: the smaller side's.
    """

    mean: float
    median: float
    error: float
    degrees: float
    n: int

    def estimate(self, level: float = LEVEL) -> Estimate:
        """Return the ratio with the interval that leaves out `level`."""
        half = t_quantile(self.degrees, level / 2) * self.error if self.n > 1 else 0.0
        low, high = (self.mean - half, self.mean + half) if self.n > 1 else (self.median, self.median)
        return Estimate(
            median=math.exp(self.median),
            low=math.exp(min(low, self.median)),
            high=math.exp(max(high, self.median)),
            n=self.n,
            unit="ratio",
        )


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
    return Sample(
        mean=float(logs.mean()), median=float(np.median(logs)), variance=variance * wider, n=int(logs.size)
    )


def gap(top: Sample, bottom: Sample) -> Gap:
    """Return how far two independent samples lie apart."""
    parts = ((top.variance / top.n, top.n - 1.0), (bottom.variance / bottom.n, bottom.n - 1.0))
    return _gap(top.mean - bottom.mean, top.median - bottom.median, parts, min(top.n, bottom.n))


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Return the mean of independent differences, whose exponential is a geometric mean of ratios."""
    parts = tuple(((each.error / len(gaps)) ** 2, each.degrees) for each in gaps)
    mean, median = (
        sum(values) / len(gaps) for values in zip(*((each.mean, each.median) for each in gaps), strict=True)
    )
    return _gap(mean, median, parts, min(each.n for each in gaps))


def _gap(mean: float, median: float, parts: Sequence[tuple[float, float]], n: int) -> Gap:
    """Put independent variances together, each with its degrees of freedom (Satterthwaite 1946)."""
    error = degrees = 0.0
    if n > 1:
        total = sum(variance for variance, _ in parts)
        weights = sum(variance**2 / own for variance, own in parts if own)
        degrees = total**2 / weights if weights > 0 else min(own for _, own in parts)
        error = math.sqrt(total)
    return Gap(mean=mean, median=median, error=error, degrees=degrees, n=n)


def ratio(top: Mapping[int, float], bottom: Mapping[int, float]) -> Estimate | None:
    """Return one variant's speeds over another's, both by trial index, with its 95 % interval.

    The ratio is that of the medians, which stand beside it. Its interval is taken index by index, so that what both
    sides share cancels out; with fewer than two common indices the sides are compared as independent samples.
    """
    common = sorted(top.keys() & bottom.keys())
    if len(common) >= 2 or (common and len(top) == len(bottom) == 1):
        paired = estimate([top[index] / bottom[index] for index in common], "ratio")
        assert paired is not None  # speeds are finite
        point = float(np.median(list(top.values())) / np.median(list(bottom.values())))
        return replace(paired, median=point, low=min(paired.low, point), high=max(paired.high, point))
    each, other = sample(list(top.values())), sample(list(bottom.values()))
    return gap(each, other).estimate() if each and other else None


def comparisons(measured: Measures) -> tuple[Comparison, ...]:
    """Return every ratio that the measures allow: GPU over CPU, tuned and optimizations over baseline, scaling."""
    return tuple(
        Comparison(kind=kind, ratio=value, **top._asdict())
        for top, kind, bottom, gpus in _pairs(measured)
        if bottom in measured
        and (
            value := ratio(
                {index: speed / gpus for index, speed in by_index(measured[top]).items()},
                by_index(measured[bottom]),
            )
        )
    )


def _pairs(measured: Measures) -> Iterator[tuple[Key, RatioKind, Key, int]]:
    """Yield what is over what, and by how many GPUs the speed of the former is divided."""
    for key in measured:
        if key.device != CPU and key.variant in (BASELINE, MODEL_ONLY, TUNED):
            yield key, RatioKind.GPU_OVER_CPU, key._replace(device=CPU), 1
        if key.variant == TUNED or changes_baseline(key.variant):
            yield key, RatioKind.OVER_BASELINE, key._replace(variant=BASELINE), 1
        gpus = gpu_names(key.device)
        if len(gpus) > 1 and key.variant in (BASELINE, TUNED):
            yield key, RatioKind.SCALING, key._replace(device=gpus[0]), len(gpus)
