"""The remedy `no-progress-bar`.

The bar reads the loss back after every step, so that the device waits for Python.

Safety: the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each fit that shows a progress bar."""
    calls = [
        call
        for call in source.measured()
        if (shown := source.given(call, "verbose")) is None
        or source.words(shown) in ("1", '"auto"', "'auto'")
    ]
    return source.keyword_at(calls, "verbose", "2")


RULE = Rule(
    name="no-progress-bar",
    summary="Print one line per epoch instead of a progress bar: verbose=2",
    aim=Aim.FRAMEWORK,
    safety=Safety.SAME,
    edits=edits,
)
