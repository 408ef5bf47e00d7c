"""Load workload declarations from their files, which are parsed and never executed.

The host has no TensorFlow and must not run user code. Therefore `workload = Workload(...)`, or `workloads = (...)`
in a file with several, contains only literals or names of literals, and is evaluated from its syntax tree.
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
from harness.digests import file_sha256
from harness.errors import StoreError, UsageError, unknown
from harness.run.declarations import Evaluator, parse_file
from harness.untrusted import printable, read_file
from workloads.protocol import IMAGES, Data, Published, Requests, Workload

_HINT = "Declare it as in examples/my_workload.py, with literals only: the host parses it without running it."
_DECLARATIONS: Mapping[str, Any] = {kind.__name__: kind for kind in (Workload, Data, Published, Requests)}

MAX_NAME = 60
# Size limits of a workload file and of a dataset.
MAX_BYTES = 1 << 20
MAX_DATA_BYTES = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A workload and the file that implements it; `external` marks files of the user."""

    workload: Workload
    path: Path
    external: bool


def built_in() -> tuple[Entry, ...]:
    """Return the built-in workloads, sorted by name."""
    folder = Path(workloads.__file__).parent
    entries: list[Entry] = []
    for path in sorted(folder.glob("*.py")):
        entries += _entries(parse_file(path), path, is_external=False)
    return tuple(sorted(entries, key=lambda entry: entry.workload.name))


def external(path: Path) -> tuple[Entry, ...]:
    """Return the workloads declared in a user's file.

    Raises:
        UsageError: no such file, not Python, or no valid `workload = Workload(...)`.
    """
    try:
        tree = ast.parse(read_file(path, max_bytes=MAX_BYTES), filename=str(path))
    except StoreError as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = printable(str(error), 300) or "it is nested too deeply"
        raise UsageError(
            f"{path} is not Python: {reason}.", hint="Run it with python3 to see why."
        ) from error
    entries = _entries(tree, path.resolve(), is_external=True)
    if not entries:
        raise UsageError(f"{path} declares no workload.", hint=_HINT)
    return entries


def select(entries: tuple[Entry, ...], names: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return the entries with the given names; none means the default suite, "all" every entry.

    Raises:
        UsageError: unknown name; the message lists the available ones.
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
    """Return the SHA-256 of each workload's file by name, and of the shared files as "workloads"."""
    folder = Path(workloads.__file__).parent
    shared = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        if not _declarations(parse_file(path)):
            shared.update(f"{path.name} {file_sha256(path)}\n".encode())
    own = {entry.workload.name: file_sha256(entry.path) for entry in entries}
    return {"workloads": shared.hexdigest(), **own}


def _declarations(tree: ast.Module) -> Sequence[ast.expr]:
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
        reason = (
            "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error), 500)
        )
        text = f"{path}: the declaration of a workload is not valid: {reason}."
        raise UsageError(text, hint=_HINT) from error
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
