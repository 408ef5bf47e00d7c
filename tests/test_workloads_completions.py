"""A device that runs behind the host is followed; what it has not done is no idleness."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from workloads.completions import Completions, idle_ns


class Result:
    """Done when told so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = threading.Event()
        self._error = error

    def numpy(self) -> None:
        self.done.wait(5)
        if self._error:
            raise self._error


def test_one_result_is_left_undone_and_the_one_before_it_is_waited_for() -> None:
    first, second = Result(), Result()
    with closing(Completions()) as completions:
        completions.follow(first)
        assert completions.last_ns() is None
        threading.Timer(0.05, first.done.set).start()
        completions.follow(second)
        assert first.done.is_set()
        assert completions.last_ns() is None
        second.done.set()
        while completions.last_ns() is None:
            pass


def test_what_a_result_raises_comes_with_the_next() -> None:
    failed, after = Result(ValueError("no kernel")), Result()
    failed.done.set()
    after.done.set()
    with closing(Completions()) as completions:
        completions.follow(failed)
        with pytest.raises(ValueError, match="no kernel"):
            completions.follow(after)


@pytest.mark.parametrize(("done", "idle"), [(None, 0), (5, 30), (25, 15), (60, 0)])
def test_waiting_is_idleness_from_the_end_of_the_last_step(done: int | None, idle: int) -> None:
    assert idle_ns(10, 40, done) == idle
