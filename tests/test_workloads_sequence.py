"""Variants one after the other: what one of them breaks costs the others nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from harness.run.events import read_log
from workloads.protocol import EventWriter
from workloads.sequence import measure_each


@pytest.mark.parametrize(("needed", "raised"), [(["last"], None), (["bad", "worse"], "no")])
def test_one_that_fails_is_left_out_and_only_one_that_is_needed_ends_the_trial(
    tmp_path: Path, needed: list[str], raised: str | None
) -> None:
    ran: list[str] = []

    def body(name: str, failure: str = "") -> None:
        if failure:
            raise ValueError(failure)
        ran.append(name)

    failures = {"first": "", "bad": "no\nmore", "worse": "nor this", "last": ""}
    bodies = {name: partial(body, name, failure) for name, failure in failures.items()}
    with EventWriter(tmp_path / "events") as events:
        if raised:
            with pytest.raises(ValueError, match=raised):
                measure_each(bodies, events=events, needed=needed)
        else:
            measure_each(bodies, events=events, needed=needed)
    assert ran == ["first", "last"]
    assert read_log(tmp_path / "events").left_out == {
        "bad": "ValueError: no",
        "worse": "ValueError: nor this",
    }
