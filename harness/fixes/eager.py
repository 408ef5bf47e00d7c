"""The remedy `compiled`.

Eager training runs every operation from Python.

Safety: the same numbers; what tf.random draws is other, and what train_step prints, logs or writes in Python comes
while tracing only. It is not offered if the step's Python reads what the script changes, which would stay as it was
while tracing, and refused if the Python of the input, or a callback, may change that or something of the model. What
the step itself draws or counts is seen in the container, which traces it several times, and compares the losses of the
first steps.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.changes import keeps_state
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each place that asks for eager execution; [] if the step's Python has a state."""
    if keeps_state(source):
        return []
    compiles = [call for call in source.compiles() if _is_told(source, call)]
    switches = [
        source.replace(call.args[0], "False")
        for call in source.calls("run_functions_eagerly")
        if call.args and source.words(call.args[0]) == "True"
    ]
    return source.keyword_at(compiles, "run_eagerly", "False") + switches


def _is_told(source: Source, call: ast.Call) -> bool:
    """Return whether a call says how to run, also in a dict that it is given."""
    dicts = [each.value for each in call.keywords if each.arg is None]
    return argument(call, "run_eagerly") is not None or any(
        source.setting(each, "run_eagerly") for each in dicts
    )


RULE = Rule(
    name="compiled",
    summary="Compile the step: run_eagerly=False",
    aim=Aim.EAGER,
    safety=Safety.ORDER,
    edits=edits,
)
