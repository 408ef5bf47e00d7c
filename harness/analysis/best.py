"""Find the points of a sweep that may be the fastest: multiple comparisons with the best.

Separate 95 % comparisons with the best point would exclude too many: the best is chosen from the same data,
and there are many comparisons. Instead, a point is kept unless a simultaneous 95 % bound separates it from
the best (Gupta 1965, "On some multiple decision (selection and ranking) rules"; Hsu 1984, "Constrained
simultaneous confidence intervals for multiple comparisons with the best"). The truly fastest point is among
the kept points in 95 of 100 sweeps.

Speeds are compared on a log scale. Trials with the same index ran under the same conditions, so their common
effect is removed first (randomised block design). The spread is pooled over all points, since three trials
are too few to estimate it for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Point

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
