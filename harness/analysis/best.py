"""Which of many points may be the fastest: multiple comparisons with the best.

Comparing every point with the best one at 95 % each would leave too many out: the best was chosen after
having been seen, and there are many comparisons. Kept instead is every point that a simultaneous 95 % bound
cannot tell from the best (Gupta 1965, "On some multiple decision (selection and ranking) rules"; Hsu 1984,
"Constrained simultaneous confidence intervals for multiple comparisons with the best"), so that the truly
fastest is among those kept in 95 of 100 sweeps.

Speeds are compared on logarithms, and trials of one index met the same machine, so that what they share is
taken out first (a randomised block design). The spread is pooled over all points: with three trials a point's
own says next to nothing.
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
    """Return the points that may be the fastest; None where single trials cannot tell."""
    points = [point for point, values in speeds.items() if values]
    if len(points) < 2:
        return frozenset(points) if points and len(speeds[points[0]]) > 1 else None
    means, spread, degrees = _fitted([speeds[point] for point in points])
    if degrees < 1:
        return None
    counts = np.array([len(speeds[point]) for point in points])
    bound = _critical(len(points), degrees) * spread * np.sqrt(1 / counts[:, None] + 1 / counts[None, :])
    # A point stays unless some other one is faster by more than the bound between the two.
    ahead = means[None, :] - means[:, None] - bound
    return frozenset(point for place, point in enumerate(points) if ahead[place].max() <= 0)


def _fitted(values: Sequence[Mapping[int, float]]) -> tuple[NDArray[np.float64], float, int]:
    """Return each point's mean logarithm freed of the blocks, and the pooled spread with its degrees."""
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
    left = logs - design @ result
    spread = math.sqrt(float(left @ left) / degrees) if degrees > 0 else math.nan
    return result[: len(values)], spread, degrees


@cache
def _critical(points: int, degrees: int) -> float:
    """Return the upper 5 % point of the greatest of all others' standardised lead over one of equal means."""
    random = np.random.default_rng(SEED)
    normal = random.standard_normal((DRAWS, points))
    lead = (normal[:, 1:].max(axis=1) - normal[:, 0]) / math.sqrt(2.0)
    scale = np.sqrt(random.chisquare(degrees, DRAWS) / degrees)
    return float(np.quantile(lead / scale, CONFIDENCE))
