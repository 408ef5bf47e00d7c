"""The remedy `many-steps`.

For a small model, to launch each step from Python and to copy each batch takes longer than the step.

Safety: batches in another random order, and up to 2 % fewer of them in an epoch; callbacks on batches run once per
call, so it is not offered if one may change training. The model is wrapped, and what saves or loads it does so with its
`network`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.changes import steers_batches
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, name_of
from workloads.protocol import STEPS_PER_CALL, Aim, Edit

COMPONENT = "many_steps.py"
# What fit may be given, the first of them by position. Weights and splits would have to be cut like the samples.
_ORDER = ("x", "y", "batch_size")
_KEPT = {*_ORDER, "epochs", "verbose", "callbacks", "validation_data"}
# Models whose train_step is Keras' own.
_PLAIN = {"Sequential", "Model"}
# What a script may use of its model once it is compiled: the same of the wrapped one.
_WRAPPED_ALIKE = {
    "fit", "summary", "evaluate", "predict", "optimizer", "count_params", "stop_training", "save", "save_weights",
    "load_weights", "history",
    "metrics_names", "get_weights", "set_weights", "weights", "trainable_weights", "predict_on_batch",
    "test_on_batch", "loss", "name",
}  # fmt: skip


def edits(source: Source) -> Sequence[Edit]:
    """Return the edits for each fit on arrays of a plain model that the script compiles once before."""
    fits, compiles = source.fits(), source.compiles()
    if steers_batches(source):
        return []
    result: list[Edit] = []
    for fit in fits:
        model = _owner(fit)
        compiled = [call for call in compiles if _owner(call) == model]
        if model and len(compiled) == 1 and [_owner(call) for call in fits].count(model) == 1:
            result += source.at(fit, _edits(source, fit, compiled[0], model))
    return result


def _edits(source: Source, fit: ast.Call, compiled: ast.Call, model: str) -> list[Edit]:
    arguments = dict(zip(_ORDER, fit.args, strict=False))
    arguments |= {each.arg or "**": each.value for each in fit.keywords}
    x, y = _name(arguments.get("x")), _name(arguments.get("y"))
    fits_arrays = arguments.keys() <= _KEPT and len(fit.args) <= len(_ORDER) and x and y
    if not (fits_arrays and _is_plain(source, source.value_of(model))):
        return []
    if any(isinstance(source.value_of(name), (ast.List, ast.Tuple, ast.Dict)) for name in (x, y)):
        return []  # several inputs or outputs
    if not _bound_before(source, (x, y), compiled) or not _used_alike(source, model, compiled):
        return []
    size = arguments.get("batch_size")
    batch = "32" if size is None else source.words(size)
    wrapping = source.statements_before(compiled, [f"{model} = ManySteps({model}, {x}, {y}, {batch})"])
    count = f"steps_per_call(len({x}) // {batch}, {STEPS_PER_CALL[source.device]})"
    counting = source.statements_before(fit, [f"per_call = {batch} * {count}  # samples of many steps"])
    if wrapping is None or counting is None:
        return []
    return [
        source.after_imports("from many_steps import ManySteps, shuffled, steps_per_call"),
        wrapping,
        counting,
        source.replace(arguments["x"], f"shuffled(len({x}), per_call)"),
        source.replace(arguments["y"], "None"),
        *([] if size is None else [source.replace(size, "None")]),
        *source.with_keyword(fit, "steps_per_epoch", f"max(1, len({x}) // per_call)"),
    ]


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


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
        return name_of(node) in _PLAIN and not source.meanings(name_of(node))
    returned = source.returned(function)
    return bool(returned) and all(_is_plain(source, each, depth - 1) for each in returned)


def _bound_before(source: Source, names: Sequence[str], call: ast.Call) -> bool:
    """Return whether a call stands at the top of a script, behind all that binds the names or changes their arrays."""
    top = [each for each in source.tree.body if not isinstance(each, (ast.FunctionDef, ast.ClassDef))]
    stores = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
    ]
    found = {node.id for node in stores} == set(names) and all(node.lineno < call.lineno for node in stores)
    before = [node for each in top if each.lineno < call.lineno for node in ast.walk(each)]
    changes = [node for node in ast.walk(source.tree) if any(_name(each) in names for each in _changed(node))]
    return found and all(node in before for node in changes) and any(call in ast.walk(each) for each in top)


def _used_alike(source: Source, model: str, compiled: ast.Call) -> bool:
    """Return whether all uses of a model behind its compile mean the same if it is wrapped."""
    first = compiled.end_lineno or 0
    nodes = [node for node in ast.walk(source.tree) if first < getattr(node, "lineno", 0)]
    alike = {
        id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _WRAPPED_ALIKE
    }
    alike |= {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return all(id(node) in alike for node in nodes if isinstance(node, ast.Name) and node.id == model)


def _changed(node: ast.AST) -> list[ast.expr | None]:
    """Return the arrays that a node changes in place."""
    match node:
        case ast.Subscript(ctx=ast.Store(), value=array):
            return [array]
        case ast.Call():
            shuffled = node.args if name_of(node) == "shuffle" else []
            return [*shuffled, *(each.value for each in node.keywords if each.arg == "out")]
    return []


RULE = Rule(
    name="many-steps",
    summary="Train many steps per call, and run callbacks on batches as often, on samples in the device's memory",
    aim=Aim.LAUNCH,
    safety=Safety.ALIKE,
    edits=edits,
)
