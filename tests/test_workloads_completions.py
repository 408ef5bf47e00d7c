"""A device that runs behind the host is followed; what it has not done is no idleness."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from workloads.completions import Completions


class Result:
    """Done when told so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = threading.Event()
        self._error = error

    def numpy(self) -> None:
        self.done.wait(5)
        if self._error:
            raise self._error


def test_a_wait_is_idleness_from_the_end_of_the_last_step() -> None:
    first, second = Result(), Result()
    with closing(Completions()) as completions:
        assert completions.idle_ns(0, 30) == 0, "nothing was started"
        completions.follow(first)
        threading.Timer(0.05, first.done.set).start()
        completions.follow(second)
        assert first.done.is_set(), "one result is left undone, and the one before it is waited for"
        began = time.monotonic_ns()
        assert completions.idle_ns(began, time.monotonic_ns()) == 0, "the device is at work"
        second.done.set()
        while not completions.idle_ns(began, time.monotonic_ns()):
            pass
        now = time.monotonic_ns()
        assert completions.idle_ns(now, now + 30) == 30
        assert 0 < completions.idle_ns(began, now) < now - began
        assert completions.idle_ns(began - 30, began) == 0, "the batch came while it was at work"


def test_what_a_result_raises_comes_with_the_next() -> None:
    failed, after = Result(ValueError("no kernel")), Result()
    failed.done.set()
    after.done.set()
    with closing(Completions()) as completions:
        completions.follow(failed)
        with pytest.raises(ValueError, match="no kernel"):
            completions.follow(after)
