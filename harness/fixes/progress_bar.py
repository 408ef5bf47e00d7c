"""Print one line per epoch instead of a progress bar: verbose=2.

Why: the bar reads the loss back after every step, so that the device waits for Python.
Safety: the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fixes.source import SAME, Source, argument
from workloads.protocol import Edit

NAME = "no-progress-bar"
ANSWERS = "framework"
SAFETY = SAME


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each fit that shows a progress bar."""
    return [
        edit
        for call in source.measured()
        if (shown := argument(call, "verbose")) is None or source.words(shown) in ("1", '"auto"', "'auto'")
        for edit in source.at(call, source.with_keyword(call, "verbose", "2"))
    ]
