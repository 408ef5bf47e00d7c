"""A short probe of the host at both ends of a trial: is it as fast as during the other trials?

A neighbour, a quota or a lower clock slows the probe and the workload alike. Without it, a slow period of the host
reads as a slow workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from workloads.protocol import PROBES

PART_S = 0.06
# Larger than the caches of a core; small enough for one thread.
COPIED_BYTES, SIDE = 32 << 20, 96


def probe() -> Iterator[tuple[str, float]]:
    """Yield the name and rate, in calls per second, of each part: interpreter, memory, one core's products."""
    source = np.ones(COPIED_BYTES, np.uint8)
    target = np.zeros_like(source)
    matrix = np.full((SIDE, SIDE), 0.5, np.float32)
    parts: tuple[Callable[[], object], ...] = (
        lambda: sum(number & 7 for number in range(2000)),
        lambda: np.copyto(target, source),
        lambda: matrix @ matrix,
    )
    for name, part in zip(PROBES, parts, strict=True):
        part()
        yield name, _rate(part)


def _rate(part: Callable[[], object]) -> float:
    began, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < PART_S:
        part()
        calls += 1
    return calls / passed
