"""Variants one after the other: what one of them breaks costs the others nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.run.events import read_log
from workloads.protocol import EventWriter
from workloads.sequence import measure_each


def fails(text: str) -> Callable[[], None]:
    def body() -> None:
        raise ValueError(text)

    return body


def test_they_run_in_order_and_one_that_fails_is_left_out_with_its_reason(tmp_path: Path) -> None:
    ran: list[str] = []
    bodies = {
        "first": lambda: ran.append("first"),
        "bad": fails("no\nmore"),
        "last": lambda: ran.append("last"),
    }
    with EventWriter(tmp_path / "events") as events:
        assert measure_each(bodies, events=events, needed=["last"]) == ["first", "last"]
    assert ran == ["first", "last"]
    assert read_log(tmp_path / "events").left_out == {"bad": "ValueError: no"}


def test_the_first_failure_of_a_needed_one_is_raised_after_the_others_have_run(tmp_path: Path) -> None:
    ran: list[str] = []
    bodies = {"one": fails("first"), "two": fails("second"), "three": lambda: ran.append("three")}
    with (
        EventWriter(tmp_path / "events") as events,
        pytest.raises(ValueError, match="first"),
    ):
        measure_each(bodies, events=events, needed=bodies)
    assert ran == ["three"]
    assert list(read_log(tmp_path / "events").left_out) == ["one", "two"]
