"""The remedy `many-steps`.

For a small model, to launch each step from Python and to copy each batch takes longer than the step.

Safety: batches in another random order, and up to 2 % fewer samples in an epoch. The model stays the same object. Keras
runs callbacks on batches once per call, so the container refuses it if the call has any but Keras' own that only show.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.changes import fits_again
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, name_of
from workloads.protocol import STEPS_PER_CALL, Aim, Edit

COMPONENT = "many_steps.py"
# What fit may be given, the first of them by position. Weights and splits would have to be cut like the samples.
_ORDER = ("x", "y", "batch_size")
_KEPT = {*_ORDER, "epochs", "verbose", "callbacks", "validation_data"}
# Names of attributes, or keys, by which a script knows how many steps Keras counts.
_COUNTED = {"params", "iterations"}
_OF_OPTIMIZER = {"variables", "save_own_variables"}
# Models whose train_step is Keras' own.
_PLAIN = {"Sequential", "Model"}


def edits(source: Source) -> Sequence[Edit]:
    """Return the edits for each fit on arrays of a plain model.

    [] if another training may have other numbers of samples, or the script reads how many steps Keras counts.
    """
    if (
        any(map(_tells_steps, source.nodes))
        or fits_again(source)
        or source.binds("many_steps", "per_call", "shuffled", "steps_per_call", "train_many_steps")
    ):
        return []
    return [
        edit
        for fit in source.fits()
        if (model := _owner(fit))
        for edit in source.at(fit, _edits(source, fit, model))
    ]


def _edits(source: Source, fit: ast.Call, model: str) -> list[Edit]:
    arguments = dict(zip(_ORDER, fit.args, strict=False))
    arguments |= {each.arg or "**": each.value for each in fit.keywords}
    x, y = _name(arguments.get("x")), _name(arguments.get("y"))
    fits_arrays = arguments.keys() <= _KEPT and len(fit.args) <= len(_ORDER) and x and y
    if not (fits_arrays and _is_plain(source, source.value_of(model))):
        return []
    if any(isinstance(source.value_of(name), (ast.List, ast.Tuple, ast.Dict)) for name in (x, y)):
        return []  # several inputs or outputs
    size = arguments.get("batch_size")
    if not (size is None or isinstance(size, (ast.Name, ast.Attribute)) or _is_number(size)):
        return []  # it is written several times
    batch = "32" if size is None else source.words(size)
    count = f"steps_per_call(len({x}), {batch}, {STEPS_PER_CALL[source.device]})"
    # Keras takes it from batch_size where fit has one.
    given = size is not None and "validation_data" in arguments
    held_out = source.with_keyword(fit, "validation_batch_size", batch) if given else []
    before = source.statements_before(fit, [
        f"train_many_steps({model}, {x}, {y}, {batch})",
        f"per_call = {batch} * {count}  # samples of many steps",
    ])  # fmt: skip
    if before is None:
        return []
    return [
        source.after_imports("from many_steps import shuffled, steps_per_call, train_many_steps"),
        before,
        source.replace(arguments["x"], f"shuffled(len({x}), per_call)"),
        source.replace(arguments["y"], "None"),
        *([] if size is None else [source.replace(size, "None")]),
        *held_out,
        *source.with_keyword(fit, "shuffle", "False"),  # Keras warns that a pipeline shuffles itself
        *source.with_keyword(fit, "steps_per_epoch", f"len({x}) // per_call"),
    ]


def _tells_steps(node: ast.AST) -> bool:
    """Return whether an expression may be how many steps Keras counts: by its name, or as an optimizer's variable."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value in _COUNTED
    if not isinstance(node, ast.Attribute):
        return False
    owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
    return node.attr in _COUNTED or (node.attr in _OF_OPTIMIZER and "opt" in owner.casefold())


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _owner(call: ast.Call) -> str:
    """Return the variable whose method is called."""
    return _name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _is_plain(source: Source, node: ast.expr | None, depth: int = 3) -> bool:
    """Return whether an expression is a model of Keras' own classes, made there or in a function."""
    if isinstance(node, ast.Name) and depth:
        return _is_plain(source, source.value_of(node.id), depth - 1)
    if not isinstance(node, ast.Call):
        return False
    function = source.function(name_of(node))
    if function is None or not depth:
        root = source.words(node.func).partition(".")[0]
        return name_of(node) in _PLAIN and source.package(root) in ("keras", "tensorflow")
    returned = source.returned(function)
    return bool(returned) and all(_is_plain(source, each, depth - 1) for each in returned)


RULE = Rule(
    name="many-steps",
    summary="Train many steps per call, with callbacks on batches once per call, on samples in the device's memory, "
    "of which an epoch may leave out up to 2 %",
    aim=Aim.LAUNCH,
    safety=Safety.ALIKE,
    edits=edits,
)
