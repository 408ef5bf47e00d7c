"""Idle time of an asynchronous device: pending results mean that it is busy."""

import threading
import time
from contextlib import closing

import pytest

from workloads.driver.device_idle import Completions


class Result:
    def __init__(self, error: Exception | None = None) -> None:
        self.done = threading.Event()
        self._error = error

    def numpy(self) -> None:
        self.done.wait(5)
        if self._error:
            raise self._error


def test_the_device_is_idle_after_its_last_result() -> None:
    first, second = Result(), Result()
    with closing(Completions()) as completions:
        assert completions.idle_ns(0, 30) == 0, "no result was tracked"
        completions.follow(first)
        threading.Timer(0.05, first.done.set).start()
        completions.follow(second)
        assert first.done.is_set(), "at most one result is pending"
        began = time.monotonic_ns()
        assert completions.idle_ns(began, time.monotonic_ns()) == 0, "the device is busy"
        second.done.set()
        while not completions.idle_ns(began, time.monotonic_ns()):
            pass
        now = time.monotonic_ns()
        assert completions.idle_ns(now, now + 30) == 30
        assert 0 < completions.idle_ns(began, now) < now - began
        assert completions.idle_ns(began - 30, began) == 0, "the batch arrived while the device was busy"


def test_the_error_of_a_result_is_raised_by_the_next_call() -> None:
    failed, succeeding = Result(ValueError("no kernel")), Result()
    failed.done.set()
    succeeding.done.set()
    with closing(Completions()) as completions:
        completions.follow(failed)
        with pytest.raises(ValueError, match="no kernel"):
            completions.follow(succeeding)
