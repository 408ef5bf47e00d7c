"""The remedy `larger-batch`.

A step's fixed costs are shared by more samples, and the device has more parallel work.

Safety: changes training: fewer updates per epoch. Raise the learning rate and compare the accuracy. The answers of
predict and evaluate stay, but come later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument
from workloads.protocol import Aim, Edit

_TIMES = 4


def edits(source: Source) -> Sequence[Edit]:
    """Return the edit of the constant for the batch size, or of the literal in fit."""
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(size))):
                if re.fullmatch("(?i)batch_?size", name):
                    return [source.replace(node.value, str(_TIMES * size))]
    return [
        edit
        for call in source.fits()
        if isinstance(given := argument(call, "batch_size"), ast.Constant) and isinstance(given.value, int)
        for edit in source.at(call, [source.replace(given, str(_TIMES * given.value))])
    ]


RULE = Rule(
    name="larger-batch",
    summary="Use four times larger batches",
    aim=Aim.BATCH,
    safety=Safety.TRAINING,
    edits=edits,
)
