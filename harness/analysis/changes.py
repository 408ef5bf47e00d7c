"""Where a series changes its level: binary segmentation, with a permutation test for every split.

A stretch is split where the difference of means before and after is greatest beside the noise (the CUSUM
statistic; binary segmentation, Vostrikova 1981). The split counts when no more than `level` of random
orders of the same values make as great a difference anywhere (as E-divisive does, Matteson & James 2014,
which continuous benchmarking uses: Daly et al. 2020, "The use of change point detection to identify software
performance regressions in a continuous integration system"). Both sides are then split in their turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = 3  # runs on each side of a change
ORDERS = 1999
SEED = 20_240_229
_AT_ONCE = 200_000  # values shuffled at once
_MOST = 40_000_000  # values shuffled for one split


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A change: the position of the first value after it, and its p-value."""

    at: int
    p: float


def splits(values: Sequence[float], level: float) -> tuple[Split, ...]:
    """Return where values in order change their level, by position.

    Args:
        values: one a run.
        level: how often chance may make any split where there is none.
    """
    array = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(SEED)
    found: list[Split] = []
    stretches = [(0, array.size)]
    while stretches:
        level /= 2
        tested = [one for one in stretches if one[1] - one[0] >= 2 * LEAST]
        stretches = []
        for start, end in tested:
            split = _split(array[start:end], level / len(tested), random)
            if split is not None:
                at = start + split.at
                found.append(Split(at=at, p=split.p))
                stretches += [(start, at), (at, end)]
    return tuple(sorted(found, key=lambda one: one.at))


def _split(array: NDArray[np.float64], level: float, random: np.random.Generator) -> Split | None:
    scores = _scores(array[np.newaxis])[0]
    best = int(scores.argmax())
    orders = min(max(ORDERS, math.ceil(4 / level)), max(ORDERS, _MOST // array.size))
    most = level * (orders + 1) - 1  # random orders that may split as well
    as_great = done = 0
    while done < orders and as_great <= most:
        count = min(orders - done, max(1, _AT_ONCE // array.size))
        shuffled = random.permuted(np.tile(array, (count, 1)), axis=1)
        as_great += int((_scores(shuffled).max(axis=1) >= scores[best] * (1 - 1e-12)).sum())
        done += count
    if as_great > most:
        return None
    return Split(at=best + LEAST, p=(as_great + 1) / (orders + 1))


def _scores(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the CUSUM statistic of every row for splits that leave LEAST values on each side."""
    n = rows.shape[1]
    before = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(rows, axis=1)
    means = sums[:, -1:] / n
    away = np.abs(sums[:, before - 1] - before * means)
    scores: NDArray[np.float64] = away / np.sqrt(before * (n - before) / n)
    return scores
