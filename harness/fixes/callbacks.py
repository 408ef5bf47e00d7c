"""The remedy `callbacks-per-epoch`.

A callback on batches makes Keras wait for the step's results, and its own work stops training.

Safety: the same numbers; fewer checkpoints and log entries.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument, name_of
from workloads.protocol import Aim, Edit

_OPTIONS = {"ModelCheckpoint": "save_freq", "BackupAndRestore": "save_freq", "TensorBoard": "update_freq"}


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each callback that acts on batches."""
    result: list[Edit] = []
    for call in source.calls(*_OPTIONS):
        option = _OPTIONS[name_of(call)]
        given = argument(call, option)
        # What is computed may be the steps of several epochs.
        if isinstance(given, (ast.Constant, ast.Name)) and not source.meanings(name_of(call)):
            result += source.with_keyword(call, option, '"epoch"')
    return result


RULE = Rule(
    name="callbacks-per-epoch",
    summary="Save and log once an epoch instead of every few batches: save_freq and update_freq",
    aim=Aim.FRAMEWORK,
    safety=Safety.SAME,
    edits=edits,
)
