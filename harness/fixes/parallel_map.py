"""The remedy `parallel-map`.

Without it tf.data calls the function for one sample after the other, on one CPU.

Safety: tf.data keeps the order of samples, so numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument
from workloads.protocol import Aim, Edit

# Method -> position of num_parallel_calls.
_POSITIONS = {"map": 1, "interleave": 3}


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each map and interleave of a dataset without num_parallel_calls."""
    return [
        edit
        for call in source.calls(*_POSITIONS)
        if getattr(call.func, "attr", "") in _POSITIONS
        and source.is_dataset(call.func.value)  # type: ignore[attr-defined]
        and len(call.args) <= _POSITIONS[call.func.attr]  # type: ignore[attr-defined]
        and argument(call, "num_parallel_calls") is None
        for edit in source.with_keyword(call, "num_parallel_calls", source.autotune)
    ]


RULE = Rule(
    name="parallel-map",
    summary="Prepare several samples at once: num_parallel_calls in map and interleave",
    aim=Aim.INPUT,
    safety=Safety.SAME,
    edits=edits,
)
