"""Evaluate and check workload declarations from syntax trees, without running code.

The host has no TensorFlow and must not run user code. Therefore `workload = Workload(...)`, or `workloads = (...)`
in a file with several, contains only literals, the types of the protocol, and names assigned to literals at the top
level of the file.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.errors import UsageError
from harness.untrusted import printable, sanitized
from workloads.protocol import IMAGES, Data, Published, Requests, Workload

# Syntax tree nodes in one declaration; characters in a text.
MAX_NODES = 100_000
MAX_TEXT = 10_000
MAX_NAME = 60
MAX_DATA_BYTES = 1 << 40
HINT = "Declare it as in examples/my_workload.py, with literals only: the host parses it without running it."
_TYPES: Mapping[str, Any] = {kind.__name__: kind for kind in (Workload, Data, Published, Requests)}


class Evaluator:
    """Evaluates expressions of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._assigned = _assigned(tree)
        self._nodes = 0

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; lists become tuples.

        Raises:
            ValueError, TypeError: not a literal, or invalid arguments; the message has the line number.
            RecursionError: the expression is nested too deeply, or refers to itself.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"line {node.lineno}: the declaration is too large")
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=keywords):
                if name not in _TYPES:
                    raise ValueError(f"line {node.lineno}: {name}(...) is not one of {', '.join(_TYPES)}")
                return _TYPES[name](**self._mapping((each.arg, each.value) for each in keywords))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Dict(keys=keys, values=values):
                names = (key and self.value(key) for key in keys)
                return self._mapping(zip(names, values, strict=True))
            case ast.Name(id=name) if name in self._assigned:
                return self.value(self._assigned[name])
            case _:
                try:
                    return sanitized(ast.literal_eval(node), MAX_TEXT)
                except ValueError as error:
                    text = f"line {node.lineno}: `{ast.unparse(node)}` is not a literal"
                    raise ValueError(text) from error

    def _mapping(self, pairs: Iterable[tuple[Any, ast.expr]]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for name, value in pairs:
            # Without a name it is **other.
            result |= self.value(value) if name is None else {name: self.value(value)}
        return result


def declarations(tree: ast.Module) -> Sequence[ast.expr]:
    """Return the expressions in a module that declare workloads."""
    match _assigned(tree):
        case {"workload": ast.Call() as call}:
            return (call,)
        case {"workloads": ast.Tuple(elts=calls)}:
            return calls
    return ()


def _assigned(tree: ast.Module) -> Mapping[str, ast.expr]:
    result = {}
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                result[name] = value
    return result


def evaluate(tree: ast.Module, node: ast.expr, path: Path) -> Workload:
    """Return the workload that an expression of a module declares.

    Raises:
        UsageError: not literals, wrong types or values out of range.
    """
    try:
        value = Evaluator(tree).value(node)
        if not isinstance(value, Workload):
            raise TypeError(f"it is a {type(value).__name__}, not a Workload")
        msgspec.convert(msgspec.to_builtins(value), Workload)
        if problems := "; ".join(_problems(value)):
            raise ValueError(problems)
    except (TypeError, ValueError, RecursionError) as error:
        reason = (
            "it is nested too deeply, or refers to itself"
            if isinstance(error, RecursionError)
            else printable(str(error), 500)
        )
        text = f"{path}: the declaration of a workload is not valid: {reason}."
        raise UsageError(text, hint=HINT) from error
    return value


def _problems(workload: Workload) -> Iterator[str]:
    """Describe values that are out of range; their types have been checked."""
    data, requests, names = workload.data, workload.requests, workload.data.class_names
    if len(workload.name) > MAX_NAME or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", workload.name):
        yield f"name must be up to {MAX_NAME} lower case letters, digits and hyphens"
    if min(workload.batch_size, workload.epochs) <= 0 or workload.samples_per_epoch < 0:
        yield "batch_size and epochs must be above 0, and samples_per_epoch not negative"
    if workload.samples_per_epoch and not workload.pipeline:
        yield "samples_per_epoch needs an own pipeline: Keras trains on arrays once per epoch"
    if workload.image not in IMAGES:
        yield f"image must be one of {', '.join(IMAGES)}"
    if not all(workload.stages) or len(set(workload.stages)) < len(workload.stages):
        yield "stages must have distinct, non-empty names"
    sizes = (requests.batch_sizes, requests.compiled_batch_sizes) if requests else ((1,),)
    if not sizes[0] or any(list(each) != sorted(set(each)) or min(each, default=1) <= 0 for each in sizes):
        yield "requests must have ascending batch sizes above 0"
    if min(data.shape, default=1) <= 0 or data.classes <= 0:
        yield "data.shape and data.classes must be above 0"
    if data.train < 0 or data.test < min(1, data.train):
        yield "data.train and data.test must not be negative, and test above 0 unless train is 0"
    if not 0 < _bytes_of(data) <= MAX_DATA_BYTES:
        yield f"data must be numeric and smaller than {MAX_DATA_BYTES >> 40} TiB"
    if data.kind == "table" and (len(data.shape) != 1 or data.dtype != "float32"):
        yield 'data.kind "table" needs a shape (columns,) of float32'
    if data.kind == "jpeg" and (len(data.shape) != 3 or data.shape[2] != 3):
        yield 'data.kind "jpeg" needs a shape (height, width, 3)'
    if names and not (
        all(re.fullmatch(r"[\w-]+", name) for name in names)
        and len(names) == data.classes
        and tuple(sorted(set(names))) == names
    ):
        yield "data.class_names must name a folder for each class, in alphabetical order"


def _bytes_of(data: Data) -> float:
    """Return the size of a dataset with one label per sample; 0 if the dtype is not numeric."""
    try:
        dtype = np.dtype(data.dtype)
        size = dtype.itemsize if dtype.kind in "biuf" else 0
        return float(max(1, data.train + data.test, data.classes) * (math.prod(data.shape) + 1) * size)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return 0
