"""Medians and ratios of a few readings, with their intervals.

A reading is one process. Those of one trial are close in time and share its conditions, so with three trials or more
the unit is the trial, as the geometric mean of its readings (the cluster means of a random-effects model with trials as
groups); with fewer, it is the reading. Two readings have a spread of one degree of freedom, which is next to nothing:
then the spread is pooled over all variants of the workload on that device.

Intervals of medians are those of harness/intervals.py.

Ratios are paired by trial or from independent samples, on a log scale too. Trials of one run are interleaved, so
trials with the same index ran under the same conditions. Different runs are independent samples: the ratio is that of
the medians, with Welch's interval (Welch 1947, "The generalization of Student's problem when several different
population variances are involved").

A run that is repeated until its interval is narrow stops when its trials happen to agree, so their spread is
biased low (Anscombe 1953, "Sequential estimation"). In a simulation of the profile's rule (three to seven
trials; `make power` repeats it) with 3 % noise, plain 95 % Welch intervals reported 9.5 % of identical pairs
as different. With the standard error of such runs multiplied by ADAPTIVE_WIDENING it is at most 5 % at any
noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.trial_measures import Measure, Measures, by_trial
from harness.intervals import estimate, t_quantile
from harness.model.analysis import MIN_TRIALS, Comparison, Estimate, Key, RatioKind
from harness.model.device import CPU, gpu_names, is_gpu
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED, changes_baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviation of the logarithm of a reading, and its degrees of freedom; 0 if unknown."""

    deviation: float = 0.0
    degrees: int = 0


def spread(groups: Iterable[Sequence[Measure]]) -> Spread:
    """Return the spread of readings within variants and trials, pooled."""
    squares, degrees = 0.0, 0
    for group in groups:
        for trial in {each.trial.id for each in group}:
            logs = np.log([each.throughput for each in group if each.trial.id == trial])
            squares += float(((logs - logs.mean()) ** 2).sum())
            degrees += logs.size - 1
    return Spread(deviation=math.sqrt(squares / degrees) if degrees else 0.0, degrees=degrees)


def speed_estimate(group: Sequence[Measure], usual: Spread, unit: str = "samples/s") -> Estimate | None:
    """Return the median speed of a variant with its 95 % interval."""
    trials = by_trial(group)
    readings = [each.throughput for each in group]
    if len(trials) >= MIN_TRIALS or len(readings) >= MIN_TRIALS or len(readings) == 1 or not usual.degrees:
        return estimate(list(trials.values()) if len(trials) >= MIN_TRIALS else readings, unit)
    median = float(np.median(readings))
    half = t_quantile(usual.degrees) * usual.deviation / math.sqrt(len(readings))
    return Estimate(
        median=median, low=median * math.exp(-half), high=median * math.exp(half), n=len(readings), unit=unit
    )


def chi_median(degrees: int) -> float:
    """Return the median ratio of a sample standard deviation to the true one."""
    from scipy.special import chdtri  # noqa: PLC0415 - see t_quantile

    return float(np.sqrt(chdtri(degrees, 0.5) / degrees))


ADAPTIVE_WIDENING = 1.25
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSample:
    """Mean logarithm, logarithm of the median and variance of a logarithm, of `n` independent values."""

    mean: float
    median: float
    variance: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """Difference of two samples on a log scale.

    Attributes:
        mean: difference of the means, the centre of the interval; median: logarithm of the medians' ratio.
        error, degrees: standard error and degrees of freedom; 0 if a side has a single value.
        n: size of the smaller sample.
    """

    mean: float
    median: float
    error: float
    degrees: float
    n: int

    def estimate(self, level: float = LEVEL) -> Estimate:
        """Return the ratio with its 1 - `level` interval."""
        half = t_quantile(self.degrees, level / 2) * self.error if self.n > 1 else 0.0
        low, high = (self.mean - half, self.mean + half) if self.n > 1 else (self.median, self.median)
        return Estimate(
            median=math.exp(self.median),
            low=math.exp(min(low, self.median)),
            high=math.exp(max(high, self.median)),
            n=self.n,
            unit="ratio",
        )


def sample(values: Sequence[float], *, adaptive: bool = False) -> LogSample | None:
    """Return log-scale statistics of a run's trials; None without positive values.

    Args:
        adaptive: whether trials were repeated until the interval was narrow enough.
    """
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    if not usable:
        return None
    logs = np.log(usable)
    variance = float(logs.var(ddof=1)) if logs.size > 1 else 0.0
    widening = ADAPTIVE_WIDENING**2 if adaptive else 1.0
    # Not the median logarithm, which for an even number of trials is another value.
    median = math.log(np.median(usable))
    return LogSample(mean=float(logs.mean()), median=median, variance=variance * widening, n=len(usable))


def gap(top: LogSample, bottom: LogSample) -> LogDifference:
    """Return the difference of two independent samples."""
    parts = ((top.variance / top.n, top.n - 1.0), (bottom.variance / bottom.n, bottom.n - 1.0))
    return _gap(top.mean - bottom.mean, top.median - bottom.median, parts, min(top.n, bottom.n))


def mean_gap(gaps: Sequence[LogDifference]) -> LogDifference:
    """Return the mean of independent differences; its exponential is a geometric mean of ratios."""
    parts = tuple(((each.error / len(gaps)) ** 2, each.degrees) for each in gaps)
    mean, median = (
        sum(values) / len(gaps) for values in zip(*((each.mean, each.median) for each in gaps), strict=True)
    )
    return _gap(mean, median, parts, min(each.n for each in gaps))


def _gap(mean: float, median: float, parts: Sequence[tuple[float, float]], n: int) -> LogDifference:
    """Combine independent variances with their degrees of freedom (Satterthwaite 1946)."""
    error = degrees = 0.0
    if n > 1:
        total = sum(variance for variance, _ in parts)
        weights = sum(variance**2 / dof for variance, dof in parts if dof)
        degrees = total**2 / weights if weights > 0 else min(dof for _, dof in parts)
        error = math.sqrt(total)
    return LogDifference(mean=mean, median=median, error=error, degrees=degrees, n=n)


def ratio(top: Mapping[int, float], bottom: Mapping[int, float]) -> Estimate | None:
    """Return the ratio of two variants' speeds with a 95 % interval; both map trial index -> speed.

    The ratio is that of the medians, as displayed. Its interval is from ratios paired by trial index, in
    which common noise cancels out. With fewer than two common indices, the sides are compared as independent
    samples.
    """
    common = sorted(top.keys() & bottom.keys())
    if len(common) >= 2 or (common and len(top) == len(bottom) == 1):
        paired = estimate([top[index] / bottom[index] for index in common], "ratio")
        assert paired is not None  # speeds are finite
        point = float(np.median(list(top.values())) / np.median(list(bottom.values())))
        return replace(paired, median=point, low=min(paired.low, point), high=max(paired.high, point))
    numerator, denominator = sample(list(top.values())), sample(list(bottom.values()))
    return gap(numerator, denominator).estimate() if numerator and denominator else None


def speed_ratio(top: Sequence[Measure], bottom: Sequence[Measure], usual: Spread) -> Estimate | None:
    """Return the ratio of two variants' speeds with a 95 % interval.

    Args:
        usual: the spread of readings, for sides with fewer than three.
    """
    sides = top, bottom
    if all(len(by_trial(each)) >= MIN_TRIALS for each in sides) or not usual.degrees:
        return ratio(by_trial(top), by_trial(bottom))
    point = _typical(top) / _typical(bottom)
    if min(map(len, sides)) >= MIN_TRIALS:
        above, below = (sample([each.throughput for each in side]) for side in sides)
        found = gap(above, below).estimate() if above and below else None
        return found and replace(found, median=point, low=min(found.low, point), high=max(found.high, point))
    error = usual.deviation * math.sqrt(sum(1 / len(each) for each in sides))
    half = t_quantile(usual.degrees) * error
    return Estimate(
        median=point, low=point * math.exp(-half), high=point * math.exp(half), n=min(map(len, sides)),
        unit="ratio",
    )  # fmt: skip


def _typical(group: Sequence[Measure]) -> float:
    """Return the median speed of a variant as it is displayed: over trials if there are enough, else over readings."""
    trials = by_trial(group)
    return float(
        np.median([*trials.values()] if len(trials) >= MIN_TRIALS else [each.throughput for each in group])
    )


def comparisons(measured: Measures) -> tuple[Comparison, ...]:
    """Return all available ratios: GPU / CPU, tuned and single optimizations / baseline, scaling."""
    result = []
    for top, kind, bottom, gpus in _pairs(measured):
        if bottom not in measured:
            continue
        shares = [each.faster(1 / gpus) for each in measured[top]]
        usual = spread(group for key, group in measured.items() if key.workload == top.workload)
        if (value := speed_ratio(shares, measured[bottom], usual)) is not None:
            result.append(Comparison(kind=kind, ratio=value, **top._asdict()))
    return tuple(result)


def _pairs(measured: Measures) -> Iterator[tuple[Key, RatioKind, Key, int]]:
    """Yield (numerator, kind, denominator, number of GPUs to divide the numerator's speed by)."""
    for key in measured:
        if is_gpu(key.device) and key.variant in (BASELINE, MODEL_ONLY, TUNED):
            yield key, RatioKind.GPU_OVER_CPU, key._replace(device=CPU), 1
        if key.variant == TUNED or changes_baseline(key.variant):
            yield key, RatioKind.OVER_BASELINE, key._replace(variant=BASELINE), 1
        gpus = gpu_names(key.device)
        if len(gpus) > 1 and key.variant in (BASELINE, TUNED):
            yield key, RatioKind.SCALING, key._replace(device=gpus[0]), len(gpus)
