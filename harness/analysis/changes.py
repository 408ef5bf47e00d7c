"""Where a series changes its level: binary segmentation, with a permutation test for every split.

A stretch is split where the difference of means before and after is greatest beside the noise (the CUSUM
statistic; binary segmentation, Vostrikova 1981). The split counts when no more than `level` of random
orders of the same values make as great a difference anywhere (as E-divisive does, Matteson & James 2014,
which continuous benchmarking uses: Daly et al. 2020, "The use of change point detection to identify software
performance regressions in a continuous integration system"). Both sides are then split in their turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = 3  # runs on each side of a change
ORDERS = 1999
SEED = 20_240_229
_AT_ONCE = 2_000_000  # values in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A change: the position of the first value after it, and its p-value."""

    at: int
    p: float


def splits(values: Sequence[float], level: float) -> tuple[Split, ...]:
    """Return where values in order change their level, by position.

    Args:
        values: one a run.
        level: how often chance may make a first split where there is none.
    """
    array = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(SEED)
    found: list[Split] = []
    stretches = [(0, array.size)]
    while stretches:
        start, end = stretches.pop()
        split = _split(array[start:end], level, random)
        if split is not None:
            at = start + split.at
            found.append(Split(at=at, p=split.p))
            stretches += [(start, at), (at, end)]
    return tuple(sorted(found, key=lambda one: one.at))


def _split(array: NDArray[np.float64], level: float, random: np.random.Generator) -> Split | None:
    if array.size < 2 * LEAST:
        return None
    scores = _scores(array[np.newaxis])[0]
    best = int(scores.argmax())
    as_great = 0
    left = ORDERS
    while left:
        count = min(left, max(1, _AT_ONCE // array.size))
        orders = random.permuted(np.tile(array, (count, 1)), axis=1)
        as_great += int((_scores(orders).max(axis=1) >= scores[best] * (1 - 1e-12)).sum())
        left -= count
    p = (as_great + 1) / (ORDERS + 1)
    return Split(at=best + LEAST, p=p) if p <= level else None


def _scores(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the CUSUM statistic of every row for splits that leave LEAST values on each side."""
    n = rows.shape[1]
    before = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(rows, axis=1)
    means = sums[:, -1:] / n
    away = np.abs(sums[:, before - 1] - before * means)
    scores: NDArray[np.float64] = away / np.sqrt(before * (n - before) / n)
    return scores
