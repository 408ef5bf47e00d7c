"""Fill a pipeline's caches before its steps are measured: what lies before a cache runs in the first epoch only."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

# Caches that take longer to fill are left to the first epoch.
LONGEST_FILL_S = 40.0
# How long what lies before a cache is read to see how fast it is; longer if nobody knows how much there is.
_TRIED_S, _TRIED_UNKNOWN_S = 1.0, 5.0


def fill_caches(dataset: tf.data.Dataset) -> float | None:
    """Read all caches of a pipeline to their ends once.

    Returns:
        Seconds that it took; 0 without a cache, None if it would take longer than LONGEST_FILL_S.
    """
    with tf.device("CPU:0"):
        caches = list(_caches(dataset))
        if sum(map(_projected_s, caches)) > LONGEST_FILL_S:
            return None
        began = time.monotonic()
        for cache in caches:
            for _ in cache:
                pass
        return time.monotonic() - began if caches else 0.0


def _caches(dataset: Any) -> Iterator[Any]:
    """Yield the caches of a pipeline that end, first the one nearest to the source."""
    for source in dataset._inputs():
        yield from _caches(source)
    ends = int(dataset.cardinality()) != tf.data.INFINITE_CARDINALITY
    if ends and type(dataset).__name__.strip("_") == "CacheDataset":
        yield dataset


def _projected_s(cache: Any) -> float:
    """Return how long filling a cache takes, in seconds, from a short reading; infinite if that is unknown."""
    count = int(cache.cardinality())
    tried_s = _TRIED_S if count >= 0 else _TRIED_UNKNOWN_S
    began, read, passed_s = time.monotonic(), 0, 0.0
    (source,) = cache._inputs()
    for _ in source:
        read, passed_s = read + 1, time.monotonic() - began
        if passed_s > tried_s:
            return passed_s / read * count if count >= 0 else math.inf
    return passed_s
