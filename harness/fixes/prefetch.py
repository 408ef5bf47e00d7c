"""The remedy `prefetch`.

Without it Keras waits for each batch to be made before its step can begin.

Safety: the same batches in the same order.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, input_of, name_of
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each dataset that Keras gets without prefetching."""
    return [
        edit
        for call in source.measured()
        if (given := input_of(call)) is not None
        and source.is_dataset(given)
        and not _prefetches(source, given)
        for edit in source.at(call, [source.insert_after(given, f".prefetch({source.autotune})")])
    ]


def _prefetches(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        value = source.value_of(node.id)
        return value is not None and not isinstance(value, ast.Name) and _prefetches(source, value)
    if not isinstance(node, ast.Call):
        return False
    if name_of(node) == "prefetch":
        return True
    function = source.function(name_of(node))
    returned = source.returned(function) if function else []
    return any(not isinstance(value, ast.Name) and _prefetches(source, value) for value in returned)


RULE = Rule(
    name="prefetch",
    summary="Prepare the next batch while this one is computed: prefetch at the end of the pipeline",
    aim=Aim.INPUT,
    safety=Safety.SAME,
    edits=edits,
)
