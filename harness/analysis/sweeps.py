"""Throughput of the points of a sweep, the fastest point and those that may be as fast.

The latter are found by multiple comparisons with the best. Separate 95 % comparisons with the best point would
exclude too many: the best is chosen from the same data, and there are many comparisons. Instead, a point is kept
unless a simultaneous 95 % bound separates it from the best (Gupta 1965, "On some multiple decision (selection and
ranking) rules"; Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with the best"). The
truly fastest point is among the kept points in 95 of 100 sweeps.

Speeds are compared on a log scale. Trials with the same index ran under the same conditions, so their common
effect is removed first (randomised block design). The spread is pooled over all points, since three trials
are too few to estimate it for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.analysis.ratios import ratio
from harness.analysis.trial_measures import Measure, by_trial, measured
from harness.intervals import estimate
from harness.model.analysis import Sweep, SweepPoint
from harness.model.run import Point, Run, Status, Trial

# The status of a point is the first of these among its trials.
_STATUSES = (Status.OK, Status.OUT_OF_MEMORY, Status.FAILED, Status.TIMEOUT, Status.NO_GPU, Status.BAD_EVENTS,
             Status.ENGINE_LOST, Status.INTERRUPTED)  # fmt: skip


def sweeps(run: Run) -> Iterator[Sweep]:
    """Yield one sweep for each swept workload, device and variant."""
    groups: dict[tuple[str, str], dict[Point, list[str]]] = {}
    for planned in run.planned:
        if planned.point:
            variants = groups.setdefault((planned.workload, planned.device), {}).setdefault(planned.point, [])
            variants += [variant for variant in planned.variants if variant not in variants]
    for (workload, device), points in groups.items():
        trials = [each for each in run.trials if (each.workload, each.device) == (workload, device)]
        for variant in dict.fromkeys(variant for variants in points.values() for variant in variants):
            yield _sweep(workload, device, variant, tuple(points), trials)


def _sweep(
    workload: str, device: str, variant: str, points: Sequence[Point], trials: Sequence[Trial]
) -> Sweep:
    by_point = {point: [each for each in trials if each.point == point] for point in points}
    ok = [each for each in trials if each.windows]
    results = {point: measured([each for each in ok if each.point == point], variant) for point in points}
    speeds = {point: by_trial(result) for point, result in results.items() if result}
    medians = {point: float(np.median(list(values.values()))) for point, values in speeds.items()}
    best = max(medians, key=lambda point: medians[point], default=())
    candidates = may_be_best(speeds)
    sweep_points = tuple(
        _point(
            point,
            by_point[point],
            results[point],
            best=speeds.get(best, {}),
            tied=None if candidates is None or point not in speeds else point in candidates,
        )
        for point in points
    )
    return Sweep(
        workload=workload,
        device=device,
        variant=variant,
        axes=tuple(dict(points[0])),
        points=sweep_points,
        best=next((each for each in sweep_points if each.point == best), None),
    )


def _point(
    point: Point,
    trials: Sequence[Trial],
    result: Sequence[Measure],
    *,
    best: Mapping[int, float],
    tied: bool | None,
) -> SweepPoint:
    representative = min(trials, key=lambda each: _STATUSES.index(each.status), default=None)
    throughput = estimate([each.throughput for each in result], "samples/s")
    return SweepPoint(
        point=point,
        status=representative.status if representative else None,
        message="" if throughput else representative.message if representative else "Not run yet.",
        throughput=throughput,
        over_best=ratio(by_trial(result), best) if result else None,
        tied=tied,
    )


DRAWS = 20_000
SEED = 19_650_613
CONFIDENCE = 0.95

# Point -> trial index -> throughput.
Speeds = Mapping[Point, Mapping[int, float]]


def may_be_best(speeds: Speeds) -> frozenset[Point] | None:
    """Return the points that may be the fastest; None if there are too few trials to say."""
    points = [point for point, values in speeds.items() if values]
    if len(points) < 2:
        return frozenset(points) if points and len(speeds[points[0]]) > 1 else None
    means, spread, degrees = _fitted([speeds[point] for point in points])
    if degrees < 1:
        return None
    counts = np.array([len(speeds[point]) for point in points])
    bound = _critical(len(points), degrees) * spread * np.sqrt(1 / counts[:, None] + 1 / counts[None, :])
    # A point is kept unless another is faster by more than their bound.
    excess = means[None, :] - means[:, None] - bound
    return frozenset(point for position, point in enumerate(points) if excess[position].max() <= 0)


def _fitted(values: Sequence[Mapping[int, float]]) -> tuple[NDArray[np.float64], float, int]:
    """Return mean logarithms without block effects, the pooled spread and its degrees of freedom."""
    blocks = {
        index: column for column, index in enumerate(sorted({index for each in values for index in each}))
    }
    rows = [
        (point, blocks[index], math.log(value))
        for point, each in enumerate(values)
        for index, value in each.items()
    ]
    design = np.zeros((len(rows), len(values) + len(blocks) - 1))
    for row, (point, block, _) in enumerate(rows):
        design[row, point] = 1.0
        if block:
            design[row, len(values) + block - 1] = 1.0
    logs = np.array([value for *_, value in rows])
    result, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    degrees = len(rows) - int(rank)
    residuals = logs - design @ result
    spread = math.sqrt(float(residuals @ residuals) / degrees) if degrees > 0 else math.nan
    return result[: len(values)], spread, degrees


@cache
def _critical(points: int, degrees: int) -> float:
    """Return the 95th percentile of one point's largest standardised deficit if all means are equal."""
    random = np.random.default_rng(SEED)
    normal = random.standard_normal((DRAWS, points))
    lead = (normal[:, 1:].max(axis=1) - normal[:, 0]) / math.sqrt(2.0)
    scale = np.sqrt(random.chisquare(degrees, DRAWS) / degrees)
    return float(np.quantile(lead / scale, CONFIDENCE))
