"""Clocks of Python that go wrong on purpose, to see what a script does by the time. For good: the process ends then."""

from __future__ import annotations

import time
from collections.abc import Callable

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")


def replace_clocks(made: Callable[[Callable[[], float], int], Callable[[], float]]) -> None:
    """Replace the functions of `time` that tell it.

    Args:
        made: returns what takes the place of a function; its second argument is how many of its units are a second.
    """
    for name in _CLOCKS:
        setattr(time, name, made(getattr(time, name), 10**9 if name.endswith("_ns") else 1))
