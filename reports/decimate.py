"""Thin out series for drawing, so that no peak is lost and a load that comes and goes stays visible."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def thin(t_s: Floats, columns: Mapping[str, Floats], points: int) -> tuple[Floats, dict[str, Floats]]:
    """Keep about `points` instants, and of each column every bucket's least and greatest value.

    A bucket gives two instants, its first and its middle; its two extremes stand there in the order in
    which they came. A bucket with nothing to read stays NaN: a gap is drawn as a gap.

    Args:
        t_s: seconds, ascending, n of them.
        columns: name -> n values.
        points: how many instants at most; fewer than four count as four.

    Returns:
        The instants, and each column at them.
    """
    buckets = max(points, 4) // 2
    length = -(-len(t_s) // buckets)
    if length <= 2:
        return t_s, dict(columns)
    used = -(-len(t_s) // length)
    padding = used * length - len(t_s)
    grid = np.pad(t_s, (0, padding), mode="edge").reshape(used, length)
    times = np.column_stack((grid[:, 0], grid[:, length // 2])).ravel()
    return times, {name: _extremes(values, used, length, padding) for name, values in columns.items()}


def _extremes(values: Floats, used: int, length: int, padding: int) -> Floats:
    grid = np.pad(values, (0, padding), constant_values=np.nan).reshape(used, length)
    missing = np.isnan(grid)
    low = np.where(missing, np.inf, grid).argmin(axis=1)
    high = np.where(missing, -np.inf, grid).argmax(axis=1)
    rows = np.arange(used)
    first, second = np.minimum(low, high), np.maximum(low, high)
    both = np.column_stack((grid[rows, first], grid[rows, second]))
    # argmin of a bucket without any reading points at a NaN, which is what it should give.
    return both.ravel()


def intervals(t_s: Floats, on: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """Give (start, end, index of its first reading) of each stretch in which `on` holds."""
    if not len(t_s):
        return []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(np.int8)))
    last = len(t_s) - 1
    return [
        (float(t_s[start]), float(t_s[min(end, last)]), int(start))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
