"""The remedy `steps-per-execution`.

Keras calls the compiled step from Python once per batch; for a small model that takes longer than the step.

Safety: the same numbers. Keras runs callbacks on batches once per call, so the container refuses it if the call has
any but Keras' own that only show, and if the steps per call do not divide a number of steps that the call is given.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from harness.fixes.changes import callbacks_are_of_keras, fits_again
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument
from workloads.protocol import LOOPS, STEPS_PER_CALL, Aim, Edit

# Steps of pipelines whose length nobody knows.
_OF_UNKNOWN_LENGTH = (
    "filter", "from_generator", "unbatch", "flat_map", "bucket_by_sequence_length", "take_while", "group_by_window",
)  # fmt: skip


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each compile.

    [] if no more steps than one divide an epoch's, if other trainings, or predict and evaluate, may have callbacks of
    the script, or if only the running script knows how many steps it makes.
    """
    trainings = source.fits()
    inferring = list(source.calls("evaluate", "predict"))
    own_loop = any(isinstance(node, ast.Attribute) and node.attr in LOOPS for node in source.nodes)
    # What the only training is given is seen when it is called.
    others = [*(trainings if fits_again(source) else ()), *inferring]
    called = all(callbacks_are_of_keras(source, call) for call in others)
    if own_loop or not called:
        return []
    if fits_again(source) and any(source.calls(*_OF_UNKNOWN_LENGTH)):
        return []  # where an epoch's end is not known, Keras counts steps of several per call otherwise
    most = STEPS_PER_CALL[source.device]
    # Keras rounds these up to whole calls.
    given = [argument(fit, name) for fit in trainings for name in ("steps_per_epoch", "validation_steps")]
    given += [argument(call, "steps") for call in inferring]
    numbers = [_number(source, each) for each in given if each is not None]
    steps = max(each for each in range(1, most + 1) if all(number % each == 0 for number in numbers))
    if steps == 1:
        return []
    fewer = [call for call in source.compiles() if _given(source, call) < steps]
    return source.keyword_at(fewer, "steps_per_execution", str(steps))


def _given(source: Source, compiled: ast.Call) -> float:
    """Return how many steps per call a compile asks for; infinitely many if only the script knows, or Keras."""
    node = source.given(compiled, "steps_per_execution")
    return 1 if node is None else _number(source, node, unknown=math.inf)


def _number(source: Source, node: ast.expr, unknown: float = 1) -> float:
    """Return a number of steps that the script gives as such or by a name; 0 for None, `unknown` if only it knows."""
    value = source.only(node.id) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, int) else 0 if value.value is None else unknown
    return unknown


RULE = Rule(
    name="steps-per-execution",
    summary="Run several steps per call, with callbacks on batches once per call, also of the model once it is "
    "saved and loaded: steps_per_execution",
    aim=Aim.LAUNCH,
    safety=Safety.SAME,
    edits=edits,
)
