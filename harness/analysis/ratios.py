"""Medians and ratios of a few readings, with their intervals.

A reading is one process. Those of one trial are close in time and share its conditions, so where there are several
trials the unit is the trial, as the geometric mean of its readings (the cluster means of a random-effects model with
trials as groups); else it is the reading. Intervals are those of harness/intervals.py, with the spread that is usual
on CPUs or on GPUs in the run.

Ratios are paired by trial or from independent samples, on a log scale too. Trials of one run are interleaved, so
trials with the same index ran under the same conditions. Different runs are independent samples: the ratio is that of
the medians, with Welch's interval (Welch 1947, "The generalization of Student's problem when several different
population variances are involved").

A run that is repeated until its interval is narrow stops when its trials happen to agree, so their spread is
biased low (Anscombe 1953, "Sequential estimation"). In a simulation of the profile's rule (three to thirty trials;
`make power` repeats it), with the standard error of such runs multiplied by ADAPTIVE_WIDENING, at most 5.5 % of
identical pairs were reported as different, at 3 % noise and a single speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.trial_measures import Measure, Measures, by_trial, units
from harness.intervals import UNKNOWN, Spread, estimate, own_spread, t_quantile, usual_by_kind
from harness.model.analysis import Estimate, Key, RatioKind
from harness.model.device import CPU, device_kind, gpu_names, is_gpu
from workloads.variants import BASELINE, MODEL_ONLY, TUNED, changes_baseline, runs_script


class Spreads:
    """The spreads that are usual in a run, on CPUs and on GPUs.

    Scripts, in processes of their own, have others than the breakdown's variants.
    """

    def __init__(self, measured: Measures) -> None:
        # Tuned and the remedies that it consists of are one group under two names.
        groups: dict[bool, set[tuple[str, tuple[float, ...]]]] = {True: set(), False: set()}
        for key, group in measured.items():
            groups[runs_script(key.variant)].add((key.device, tuple(units(group))))
        self._usual = {whole: usual_by_kind(sorted(values)) for whole, values in groups.items()}

    def of(self, device: str, variant: str) -> Spread:
        """Return the usual spread of a variant's units on a device."""
        return self._usual[runs_script(variant)][device_kind(device)]


ADAPTIVE_WIDENING = 1.35
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSample:
    """Mean logarithm, logarithm of the median and spread of a logarithm, of `n` independent values."""

    mean: float
    median: float
    spread: Spread
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """Difference of two samples on a log scale.

    Attributes:
        mean: difference of the means, the centre of the interval; median: logarithm of the medians' ratio.
        error, degrees: standard error and degrees of freedom; 0 if the spread of a side is unknown.
        n: size of the smaller sample.
    """

    mean: float
    median: float
    error: float
    degrees: float
    n: int

    def estimate(self, level: float = LEVEL) -> Estimate:
        """Return the ratio with its 1 - `level` interval."""
        half = t_quantile(self.degrees, level / 2) * self.error if self.degrees else 0.0
        low, high = (self.mean - half, self.mean + half) if self.degrees else (self.median, self.median)
        return Estimate(
            median=math.exp(self.median),
            low=math.exp(min(low, self.median)),
            high=math.exp(max(high, self.median)),
            n=self.n,
            unit="ratio",
        )


def sample(values: Sequence[float], usual: Spread = UNKNOWN, *, adaptive: bool = False) -> LogSample | None:
    """Return log-scale statistics of independent values; None without positive values.

    Args:
        usual: the spread that values of this kind have.
        adaptive: whether they were repeated until the interval was narrow enough.
    """
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    if not usable:
        return None
    logs = np.log(usable)
    spread = own_spread(logs).joined(usual).times(ADAPTIVE_WIDENING if adaptive else 1.0)
    # Not the median logarithm, which for an even number of values is another one.
    median = math.log(np.median(usable))
    return LogSample(mean=float(logs.mean()), median=median, spread=spread, n=len(usable))


def gap(top: LogSample, bottom: LogSample) -> LogDifference:
    """Return the difference of two independent samples."""
    parts = [(side.spread.deviation**2 / side.n, side.spread.degrees) for side in (top, bottom)]
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
    if all(dof for _, dof in parts):
        total = sum(variance for variance, _ in parts)
        weights = sum(variance**2 / dof for variance, dof in parts)
        degrees = total**2 / weights if weights > 0 else min(dof for _, dof in parts)
        error = math.sqrt(total)
    return LogDifference(mean=mean, median=median, error=error, degrees=degrees, n=n)


def ratio(
    top: Mapping[int, float],
    bottom: Mapping[int, float],
    usual: tuple[Spread, Spread] = (UNKNOWN, UNKNOWN),
) -> Estimate | None:
    """Return the ratio of two variants' speeds with a 95 % interval; both map trial index -> speed.

    The ratio is that of the medians, as displayed. Its interval is from ratios paired by trial index, in
    which common noise cancels out. With fewer than two common indices, the sides are compared as independent
    samples.

    Args:
        usual: the spreads that such speeds have, above and below.
    """
    common = sorted(top.keys() & bottom.keys())
    if len(common) >= 2 or (common and len(top) == len(bottom) == 1):
        paired = estimate(
            [top[index] / bottom[index] for index in common], "ratio", usual[0].of_difference(usual[1])
        )
        assert paired is not None  # speeds are finite
        return _around(paired, list(top.values()), list(bottom.values()))
    return _unpaired(list(top.values()), list(bottom.values()), usual)


def speed_ratio(
    top: Sequence[Measure],
    bottom: Sequence[Measure],
    usual: tuple[Spread, Spread] = (UNKNOWN, UNKNOWN),
) -> Estimate | None:
    """Return the ratio of two variants' speeds with a 95 % interval; see `ratio`."""
    sides = by_trial(top), by_trial(bottom)
    if len(sides[0].keys() & sides[1].keys()) >= 2:
        return ratio(*sides, usual)
    return _unpaired(units(top), units(bottom), usual)


def _unpaired(top: Sequence[float], bottom: Sequence[float], usual: tuple[Spread, Spread]) -> Estimate | None:
    numerator, denominator = sample(top, usual[0]), sample(bottom, usual[1])
    if numerator is None or denominator is None:
        return None
    return _around(gap(numerator, denominator).estimate(), top, bottom)


def _around(found: Estimate, top: Sequence[float], bottom: Sequence[float]) -> Estimate:
    """Return an interval around the ratio of medians, which are displayed."""
    point = float(np.median(top) / np.median(bottom))
    if not found.known:
        return replace(found, median=point, low=point, high=point)
    return replace(found, median=point, low=min(found.low, point), high=max(found.high, point))


# Variant -> kind -> ratio of its speed to another one.
Ratios = Mapping[Key, Mapping[RatioKind, Estimate]]


def speed_ratios(measured: Measures, spreads: Spreads) -> Ratios:
    """Return all available ratios: GPU / CPU, tuned and single optimizations / baseline, scaling."""
    result: dict[Key, dict[RatioKind, Estimate]] = {}
    for top, kind, bottom, gpus in _pairs(measured):
        if bottom not in measured:
            continue
        shares = [each.faster(1 / gpus) for each in measured[top]]
        usual = spreads.of(top.device, top.variant), spreads.of(bottom.device, bottom.variant)
        if (value := speed_ratio(shares, measured[bottom], usual)) is not None:
            result.setdefault(top, {})[kind] = value
    return result


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
