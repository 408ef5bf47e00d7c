"""Which workloads there are: read from their files' declarations, which are parsed and never executed.

A workload file imports TensorFlow, which the host does not have; and a user's file is not to be run on
the host at all. So `workload = Workload(...)`, or `workloads = (...)` in a file with several, holds literals
only (or names of such) and is evaluated from its syntax tree.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import workloads
from harness.errors import StoreError, UsageError, unknown
from harness.run.literals import Evaluator, parsed
from harness.untrusted import printable, read_file
from workloads.protocol import IMAGES, Data, Published, Requests, Workload

_HINT = "Declare it as in examples/my_workload.py, with literals only: the host parses it without running it."
_DECLARATIONS: Mapping[str, Any] = {kind.__name__: kind for kind in (Workload, Data, Published, Requests)}

LONGEST_NAME = 60
# Of a workload's file, and of a dataset.
MOST_BYTES = 1 << 20
MOST_DATA_BYTES = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A workload and the file that implements it; `external` files come from outside the tree."""

    workload: Workload
    path: Path
    external: bool


def built_in() -> tuple[Entry, ...]:
    """Return the workloads of this tree in alphabetical order of their names."""
    folder = Path(workloads.__file__).parent
    entries: list[Entry] = []
    for path in sorted(folder.glob("*.py")):
        entries += _entries(parsed(path), path, is_external=False)
    return tuple(sorted(entries, key=lambda entry: entry.workload.name))


def external(path: Path) -> tuple[Entry, ...]:
    """Return the workloads that a user's file declares.

    Raises:
        UsageError: no such file, not Python, or no `workload = Workload(...)` of literals in it.
    """
    try:
        tree = ast.parse(read_file(path, most_bytes=MOST_BYTES), filename=str(path))
    except StoreError as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = printable(str(error), 300) or "it is nested too deeply"
        raise UsageError(f"{path} is not Python: {why}.", hint="Run it with python3 to see why.") from error
    entries = _entries(tree, path.resolve(), is_external=True)
    if not entries:
        raise UsageError(f"{path} declares no workload.", hint=_HINT)
    return entries


def select(entries: tuple[Entry, ...], names: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return the entries that `names` ask for: all of the default suite when empty, "all" for every one.

    Raises:
        UsageError: a name that no entry has; the message lists those there are.
    """
    if not names:
        return tuple(entry for entry in entries if entry.external or entry.workload.suite == "default")
    if "all" in names:
        return entries
    available = {entry.workload.name: entry for entry in entries}
    for name in names:
        if name not in available:
            raise unknown("workload", name, (*sorted(available), "all"))
    return tuple(available[name] for name in dict.fromkeys(names))


def sources(entries: Sequence[Entry]) -> Mapping[str, str]:
    """Return the SHA-256 of each workload's file by its name, and of what runs them all as "workloads"."""
    folder = Path(workloads.__file__).parent
    shared = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        content = path.read_bytes()
        if not _declarations(parsed(path)):
            shared.update(f"{path.name} {hashlib.sha256(content).hexdigest()}\n".encode())
    own = {entry.workload.name: hashlib.sha256(entry.path.read_bytes()).hexdigest() for entry in entries}
    return {"workloads": shared.hexdigest(), **own}


def _declarations(tree: ast.Module) -> Sequence[ast.expr]:
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="workload")], value=ast.Call() as one)
                | ast.AnnAssign(target=ast.Name(id="workload"), value=ast.Call() as one)
            ):
                return (one,)
            case ast.Assign(targets=[ast.Name(id="workloads")], value=ast.Tuple(elts=several)):
                return several
    return ()


def _entries(tree: ast.Module, path: Path, *, is_external: bool) -> tuple[Entry, ...]:
    return tuple(
        Entry(workload=_evaluate(tree, node, path), path=path, external=is_external)
        for node in _declarations(tree)
    )


def _evaluate(tree: ast.Module, node: ast.expr, path: Path) -> Workload:
    try:
        value = Evaluator(tree, Path(workloads.__file__).parent, _DECLARATIONS).value(node)
        if not isinstance(value, Workload):
            raise TypeError(f"it is a {type(value).__name__}, not a Workload")
        msgspec.convert(msgspec.to_builtins(value), Workload)
        if problems := "; ".join(_problems(value)):
            raise ValueError(problems)
    except (TypeError, ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error), 500)
        text = f"{path}: the declaration of a workload is not valid: {why}."
        raise UsageError(text, hint=_HINT) from error
    return value


def _problems(workload: Workload) -> Iterator[str]:
    """Say which values are out of range; their types have been checked."""
    data, requests, names = workload.data, workload.requests, workload.data.class_names
    if len(workload.name) > LONGEST_NAME or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", workload.name):
        yield f"name must be up to {LONGEST_NAME} lower case letters, digits and hyphens"
    if min(workload.batch_size, workload.epochs) <= 0 or workload.samples_per_epoch < 0:
        yield "batch_size and epochs must be above 0, and samples_per_epoch not negative"
    if workload.image not in IMAGES:
        yield f"image must be one of {', '.join(IMAGES)}"
    if not all(workload.stages) or len(set(workload.stages)) < len(workload.stages):
        yield "stages must be different names"
    sizes = (requests.batch_sizes, requests.compiled_batch_sizes) if requests else ((1,),)
    if not sizes[0] or any(list(each) != sorted(set(each)) or min(each, default=1) <= 0 for each in sizes):
        yield "requests must have ascending batch sizes above 0"
    if min(data.shape, default=1) <= 0 or data.classes <= 0:
        yield "data.shape and data.classes must be above 0"
    if data.train < 0 or data.test < min(1, data.train):
        yield "data.train and data.test must not be negative, and test above 0 unless train is 0"
    if not 0 < _bytes_of(data) <= MOST_DATA_BYTES:
        yield f"data must take less than {MOST_DATA_BYTES >> 40} TiB in a dtype of numbers"
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
    """Return what a dataset and one label a sample take, 0 for what is no dtype of numbers."""
    try:
        dtype = np.dtype(data.dtype)
        size = dtype.itemsize if dtype.kind in "biuf" else 0
        return float(max(1, data.train + data.test, data.classes) * (math.prod(data.shape) + 1) * size)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return 0
