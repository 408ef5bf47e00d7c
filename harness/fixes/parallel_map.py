"""The remedy `parallel-map`.

Without it tf.data calls the function for one sample after the other, on one CPU.

Safety: tf.data keeps the order of samples, so numbers are the same.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each map and interleave of a dataset without num_parallel_calls."""
    return [
        edit
        for call in source.calls("map", "interleave")
        if isinstance(call.func, ast.Attribute)
        and source.is_dataset(call.func.value)
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
