"""Evaluate and check workload declarations from syntax trees, without running code.

The host has no TensorFlow and must not run user code. Therefore `workload = Workload(...)`, or `workloads = (...)`
in a file with several, contains only literals, the types of the protocol, and names assigned to literals at the top
level of the same file or of a module of `workloads` from which the name is imported.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import workloads
from harness.errors import UsageError
from harness.untrusted import printable, sanitized
from workloads.protocol import IMAGES, Data, Published, Requests, Workload

_PACKAGE = "workloads"
# Syntax tree nodes in one declaration; characters in a text or values in a tuple.
MAX_NODES = 100_000
MAX_TEXT = 10_000
MAX_NAME = 60
MAX_DATA_BYTES = 1 << 40
HINT = "Declare it as in examples/my_workload.py, with literals only: the host parses it without running it."
_TYPES: Mapping[str, Any] = {kind.__name__: kind for kind in (Workload, Data, Published, Requests)}


def parse_file(path: Path) -> ast.Module:
    """Return a file's syntax tree, cached by content; callers must not modify it."""
    return _tree(path.read_bytes(), str(path))


@lru_cache(maxsize=128)
def _tree(content: bytes, name: str) -> ast.Module:
    return ast.parse(content, filename=name)


class Evaluator:
    """Evaluates expressions of one module.

    Args:
        tree: the module.
        folder: folder of the package `workloads`.
        types: types that a declaration may construct, by name.
    """

    def __init__(self, tree: ast.Module, folder: Path, types: Mapping[str, Any]) -> None:
        self._tree = tree
        self._folder = folder
        self._types = types
        self._resolving: set[str] = set()
        self._nodes = 0

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; lists become tuples.

        Raises:
            ValueError, TypeError: not a literal, or invalid arguments; the message has the line number.
            RecursionError: the expression is nested too deeply.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"line {node.lineno}: the declaration is too large")
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=keywords):
                if name not in self._types:
                    raise ValueError(
                        f"line {node.lineno}: {name}(...) is not one of {', '.join(self._types)}"
                    )
                return self._types[name](**self._arguments(keywords))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                total = self.value(left) + self.value(right)
                if isinstance(total, (str, tuple)) and len(total) > MAX_TEXT:
                    raise ValueError(f"line {node.lineno}: the declaration is too large")
                return total
            case ast.Name(id=name):
                return self._named(name, node)
            case _:
                try:
                    return sanitized(ast.literal_eval(node), MAX_TEXT)
                except ValueError as error:
                    text = f"line {node.lineno}: `{ast.unparse(node)}` is not a literal"
                    raise ValueError(text) from error

    def _arguments(self, keywords: list[ast.keyword]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for keyword in keywords:
            result |= {keyword.arg: self.value(keyword.value)} if keyword.arg else self.value(keyword.value)
        return result

    def _dictionary(self, keys: list[ast.expr | None], values: list[ast.expr]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:  # {**other}
                result.update(self.value(value))
            else:
                result[self.value(key)] = self.value(value)
        return result

    def _named(self, name: str, node: ast.expr) -> Any:
        if name in self._resolving:
            raise ValueError(f"line {node.lineno}: `{name}` refers to itself")
        self._resolving.add(name)
        try:
            for statement in self._tree.body:
                match statement:
                    case (
                        ast.Assign(targets=[ast.Name(id=target)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
                    ) if target == name:
                        return self.value(value)
                    case ast.ImportFrom(module=str(module), names=aliases, level=0):
                        for alias in aliases:
                            if (alias.asname or alias.name) == name:
                                return self._imported(module, alias, node)
            raise ValueError(f"line {node.lineno}: `{name}` is not a literal")
        finally:
            self._resolving.discard(name)

    def _imported(self, module: str, alias: ast.alias, node: ast.expr) -> Any:
        package, _, rest = module.partition(".")
        path = self._folder / f"{rest}.py"
        if package != _PACKAGE or not rest.isidentifier() or not path.is_file():
            raise ValueError(
                f"line {node.lineno}: `{alias.name}` is imported from {module}; only modules of workloads are supported"
            )
        imported = Evaluator(parse_file(path), self._folder, self._types)
        return imported.value(ast.Name(id=alias.name, lineno=node.lineno))


def declarations(tree: ast.Module) -> Sequence[ast.expr]:
    """Return the expressions in a module that declare workloads."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="workload")], value=ast.Call() as call)
                | ast.AnnAssign(target=ast.Name(id="workload"), value=ast.Call() as call)
            ):
                return (call,)
            case ast.Assign(targets=[ast.Name(id="workloads")], value=ast.Tuple(elts=calls)):
                return calls
    return ()


def evaluate(tree: ast.Module, node: ast.expr, path: Path) -> Workload:
    """Return the workload that an expression of a module declares.

    Raises:
        UsageError: not literals, wrong types or values out of range.
    """
    try:
        value = Evaluator(tree, Path(workloads.__file__).parent, _TYPES).value(node)
        if not isinstance(value, Workload):
            raise TypeError(f"it is a {type(value).__name__}, not a Workload")
        msgspec.convert(msgspec.to_builtins(value), Workload)
        if problems := "; ".join(_problems(value)):
            raise ValueError(problems)
    except (TypeError, ValueError, RecursionError) as error:
        reason = (
            "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error), 500)
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
