"""Where a loader written in Python spends its time: its batches, profiled by function."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# A function that spends this share of its time in one other function is replaced by that one.
FORWARDED = 0.7
# Functions below this share of the time are not listed.
LISTED = 0.05

_Function = tuple[str, int, str]


def profile(batches: Iterator[Any], rows: int, seconds: float) -> dict[str, float]:
    """Return the seconds per sample of the functions that make batches, in descending order.

    Args:
        batches: the loader's batches, made in this thread.
        rows: samples per batch.
        seconds: how long to measure; at least one batch is made.
    """
    profiler = cProfile.Profile()
    made, until = 0, time.monotonic() + seconds
    while not made or time.monotonic() < until:
        profiler.enable()
        batch = next(batches, None)
        profiler.disable()
        if batch is None:
            break
        made += 1
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    callees: dict[_Function, dict[_Function, float]] = {}
    for function, entry in stats.items():
        for caller, (_, _, _, seconds_there) in entry[4].items():
            callees.setdefault(caller, {})[function] = seconds_there
    total = {function: entry[3] for function, entry in stats.items()}
    if not made or not total:
        return {}
    return {
        name: each / made / rows
        for name, each in _split(max(total, key=lambda key: total[key]), total, callees)
    }


def _split(
    root: _Function, total: Mapping[_Function, float], callees: Mapping[_Function, Mapping[_Function, float]]
) -> list[tuple[str, float]]:
    """Return the times of the functions in which the work divides, and of what is left."""
    node, whole, seen = root, total[root], {root}
    while others := {key: value for key, value in callees.get(node, {}).items() if key not in seen}:
        largest = max(others, key=lambda key: others[key])
        if others[largest] < FORWARDED * whole or not callees.get(largest):
            break
        node, whole = largest, others[largest]
        seen.add(node)
    parts = {key: value for key, value in callees.get(node, {}).items() if value >= LISTED * total[root]}
    listed = sorted(((_label(key), value) for key, value in parts.items()), key=lambda each: -each[1])
    rest = total[root] - sum(parts.values())
    return [*listed, *([(f"rest of {_label(node)}", rest)] if rest >= LISTED * total[root] else [])]


def _label(function: _Function) -> str:
    file, line, name = function
    return name.strip("<>") if file == "~" else f"{name}, {Path(file).name}:{line}"
