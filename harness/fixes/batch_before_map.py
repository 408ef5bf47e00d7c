"""The remedy `batch-before-map`.

Tf.data calls a map's function once per element, which for small elements takes longer than the arithmetic.

Safety: only functions made of element-wise operations, which give the same numbers for a batch.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, name_of
from workloads.protocol import Aim, Edit

# Stages that do not look into elements.
_BLIND = ("shuffle", "repeat", "take", "skip")
# Functions of tf and tf.math that treat each number of their first argument alike.
_WISE = (
    "cast", "image.convert_image_dtype", "one_hot", "clip_by_value", "abs", "exp", "log", "log1p", "negative", "round",
    "sigmoid", "sign", "sqrt", "square", "tanh",
)  # fmt: skip
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_NUMBER = ""


def edits(source: Source) -> Sequence[Edit]:
    """Return the edits that move each batch before the maps that give the same for a batch."""
    result: list[Edit] = []
    for call in source.calls("batch"):
        last: ast.expr = call
        while isinstance(last, ast.Call) and (last is call or name_of(last) in _BLIND):
            last = _before(last)
        first = last
        while isinstance(first, ast.Call) and name_of(first) == "map" and _same_for_a_batch(source, first):
            first = _before(first)
        if first is not last and source.is_dataset(first):
            result += source.move(last, call, first)
    return result


def _before(call: ast.Call) -> ast.expr:
    """Return what a method is called on."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _same_for_a_batch(source: Source, call: ast.Call) -> bool:
    """Return whether a map's function does the same to a batch as to each of its elements."""
    given = call.args[0] if call.args else None
    function = source.only(given.id) if isinstance(given, ast.Name) else given
    if isinstance(function, ast.Lambda):
        body: list[ast.stmt] = [ast.Return(function.body)]
    elif isinstance(function, ast.FunctionDef) and not function.decorator_list:
        body = [
            each
            for each in function.body
            if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        ]
    else:
        return False
    taken = function.args
    if taken.posonlyargs or taken.kwonlyargs or taken.vararg or taken.kwarg or taken.defaults:
        return False
    shapes: dict[str, str | None] = {each.arg: each.arg for each in taken.args}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                shapes[name] = _shape(source, value, shapes)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                shapes[name] = _shape(source, ast.BinOp(ast.Name(name), operator, value), shapes)
            case ast.Return(value=ast.Tuple(elts=parts)) | ast.Return(value=ast.Dict(values=parts)):
                return all(_shape(source, each, shapes) for each in parts)
            case ast.Return(value=ast.expr() as value):
                return bool(_shape(source, value, shapes))
            case _:
                break
    return False


def _shape(source: Source, node: ast.expr, shapes: Mapping[str, str | None]) -> str | None:
    """Return a name for an expression's shape, or _NUMBER; None if a batch may give something else."""
    match node:
        case ast.Constant(value=int() | float()):
            return _NUMBER
        case ast.Name(id=name) if name in shapes:
            return shapes[name]
        case ast.Name(id=name):
            return _shape(source, found, {}) if isinstance(found := source.only(name), ast.Constant) else None
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            return f"{name}.{key}" if shapes.get(name) == name else None
        case ast.UnaryOp(op=ast.USub(), operand=value):
            return _shape(source, value, shapes)
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _ARITHMETIC):
            # Two shapes would be broadcast, which the batch's dimension changes.
            both = [_shape(source, each, shapes) for each in (left, right)]
            return None if None in both or len({*both} - {_NUMBER}) > 1 else both[0] or both[1]
        case ast.Call(args=[first, *_]) if _is_element_wise(source, node, shapes):
            shape = _shape(source, first, shapes)
            return f"{shape}, one-hot" if shape and name_of(node) == "one_hot" else shape
    return None


def _is_element_wise(source: Source, call: ast.Call, shapes: Collection[str]) -> bool:
    """Return whether a call treats each number of its first argument alike."""
    layer = source.only(call.func.id) if isinstance(call.func, ast.Name) else None
    if isinstance(layer, ast.Call) and name_of(layer) == "Rescaling":
        given = [*layer.args, *(each.value for each in layer.keywords)]
        return (
            len(call.args) == 1
            and not call.keywords
            and all(_shape(source, each, {}) == _NUMBER for each in given)
        )
    names = {f"{source.tf}.{name}" for name in _WISE} | {f"{source.tf}.math.{name}" for name in _WISE}
    others = [*call.args[1:], *(each.value for each in call.keywords)]
    return (
        source.words(call.func) in names
        and {each.arg for each in call.keywords} <= {"dtype", "depth"}
        and not any(
            isinstance(each, ast.Name) and each.id in shapes for other in others for each in ast.walk(other)
        )
        and (name_of(call) != "clip_by_value" or all(_shape(source, each, {}) == _NUMBER for each in others))
    )


RULE = Rule(
    name="batch-before-map",
    summary="Make batches first and transform each as a whole: map behind batch",
    aim=Aim.INPUT,
    safety=Safety.SAME,
    edits=edits,
)
