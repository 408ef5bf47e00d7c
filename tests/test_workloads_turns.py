"""Variants take turns: never two at once, and what one raises reaches whoever let it run."""

from __future__ import annotations

import threading

import pytest

from workloads.turns import Pausable, measure_in_turn


def test_bodies_run_one_at_a_time_in_the_order_of_their_turns():
    seen = []
    inside = threading.Semaphore(1)

    def body(name):
        def run(pause):
            order = "first"
            while order != "stop":
                assert inside.acquire(blocking=False), "two bodies ran at once"
                seen.append((name, order))
                inside.release()
                order = pause()

        return run

    one, two = Pausable("one", body("one")), Pausable("two", body("two"))
    for order in ("ignored", "a", "b"):
        one.resume(order)
        two.resume(order)
    assert seen == [
        ("one", "first"), ("two", "first"), ("one", "a"), ("two", "a"), ("one", "b"), ("two", "b"),
    ]  # fmt: skip
    one.resume("stop")
    assert one.ended
    assert not two.ended
    two.resume("stop")


def test_what_a_body_raises_is_raised_where_it_was_resumed():
    def run(pause):
        pause()
        raise ValueError("no such layer")

    body = Pausable("variant", run)
    body.resume(None)
    assert not body.ended
    with pytest.raises(ValueError, match="no such layer"):
        body.resume(None)
    assert body.ended
    with pytest.raises(RuntimeError, match="has ended"):
        body.resume(None)


def test_each_variant_is_measured_as_often_as_asked_and_first_in_turn():
    seen = []

    def body(name):
        def run(pause):
            while pause():
                seen.append(name)

        return run

    measure_in_turn(
        {name: body(name) for name in "abc"}, windows={"a": 3, "b": 2, "c": 3}, failed=lambda *_: True
    )
    assert seen == ["a", "b", "c", "b", "c", "a", "a", "c"]
