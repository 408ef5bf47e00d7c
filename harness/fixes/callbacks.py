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
        named = _names_batches(source, call)
        if isinstance(given, (ast.Constant, ast.Name)) and not source.meanings(name_of(call)) and not named:
            result += source.with_keyword(call, option, '"epoch"')
    return result


def _names_batches(source: Source, call: ast.Call) -> bool:
    """Return whether the path of a checkpoint has the number of a batch, which an epoch's end does not know."""
    given = next((each.value for each in call.keywords if each.arg == "filepath"), None)
    path = given or next(iter(call.args), None)
    used = source.used(path) if path is not None else []
    return any("{batch" in source.words(each) for each in used)


RULE = Rule(
    name="callbacks-per-epoch",
    summary="Save and log once an epoch instead of every few batches: save_freq and update_freq",
    aim=Aim.FRAMEWORK,
    safety=Safety.SAME,
    edits=edits,
)
