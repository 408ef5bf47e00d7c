"""Clocks of Python that go wrong on purpose, to see what a script does by the time. For good: the process ends then."""

from __future__ import annotations

import time
from collections.abc import Callable

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")

_Clock = Callable[[], float]


def let_clocks_run(times: int) -> None:
    """Let the clocks of Python go so many times as fast from now on."""

    def faster(clock: _Clock, _: int) -> _Clock:
        began = clock()
        return lambda: began + times * (clock() - began)

    _replace(faster)


def set_clocks_ahead() -> Callable[[int], None]:
    """Return what sets the clocks of Python ahead, by so many seconds each time."""
    ahead_s = 0

    def advance(by_s: int) -> None:
        nonlocal ahead_s
        ahead_s += by_s

    _replace(lambda clock, second: lambda: clock() + ahead_s * second)
    return advance


def _replace(made: Callable[[_Clock, int], _Clock]) -> None:
    """Replace the functions of `time` by what is made of them and of how many of their units are a second."""
    for name in _CLOCKS:
        setattr(time, name, made(getattr(time, name), 10**9 if name.endswith("_ns") else 1))
