"""When a condition held."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def stretches(t_s: Floats, on: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """Give (start, end, index of its first reading) of each stretch in which `on` holds."""
    if not len(t_s):
        return []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(np.int8)))
    last = len(t_s) - 1
    return [
        (float(t_s[start]), float(t_s[min(end, last)]), int(start))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
