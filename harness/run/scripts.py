"""Read scripts and notebooks without running them: metadata, data sets, and constants, which are their parameters.

Constants are names at the top of a script that hold literals. Metadata are a comment block as in PEP 723,
`# /// tfbench` to `# ///`, in TOML. All of it is optional.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import math
import re
import sys
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import decode_source
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

import workloads
from harness import notebooks
from harness.analysis.quantities import QUANTITIES
from harness.data.generated import CARDINALITIES
from harness.data.published_datasets import KERAS_DATASETS
from harness.errors import StoreError, UsageError, unknown
from harness.fixes import many_steps
from harness.model.workload import UNITS, Data, Published, Rung, Suite, Workload
from harness.untrusted import parse_toml, path_hint, printable, read_file
from workloads.cells import CELL, NOTEBOOK, PARAMETERS, place, tags
from workloads.protocol import IMAGES, MACHINE, TENSORFLOW, Requests
from workloads.variants import OPTIMIZATION, TUNED

# Files that built-in scripts share.
COMPONENTS = Path(workloads.__file__).parent / "components"
# Size limit of a script.
MAX_BYTES = 1 << 20
MAX_NAME = 60
# Names of what a run records beside its workloads: trials of the machine, the driver among its sources, and numbers.
RESERVED = tuple(
    sorted({MACHINE, "workloads", *(each.pattern.split(".")[0] for each in QUANTITIES)} - {"WORKLOAD"})
)
MAX_DATA_BYTES = 1 << 40
MIN_VOCABULARY, MAX_VOCABULARY = 100, 10_000_000
_BLOCK = re.compile(
    r"^# /// tfbench[ \t]*\n(?P<content>(?:#(?! /// tfbench).*\n)*?)# ///[ \t]*$", re.MULTILINE
)
# The first or second line may name an encoding (PEP 263), the second below a line without code.
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*(?P<name>[-\w.]+)")
_NO_CODE = re.compile(r"[ \t\f]*(?:#.*)?\r?")
# Integers up to this are exact as floating-point numbers.
MAX_VALUE = 1 << 53
# Longer literals are no parameters.
MAX_TEXT = 1000
_EXPECTED: Mapping[type, str] = {
    bool: "true or false",
    int: f"a whole number up to {MAX_VALUE:,}",
    float: "a finite number",
    str: f"text in UTF-8 of at most {MAX_TEXT} characters",
    tuple: "a Python literal, such as (32, 64)",
}
_Number = Annotated[float, msgspec.Meta(ge=-MAX_VALUE, le=MAX_VALUE)]
_T = TypeVar("_T")


class _Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the metadata block says of a workload."""

    title: str = ""
    source: str = ""
    suite: Suite = "extra"
    accuracy: float = 0.0
    tuned: str = ""
    image: str = TENSORFLOW
    components: tuple[str, ...] = ()
    data: dict[str, Any] | None = None
    requests: Requests | None = None
    published: tuple[dict[str, Any], ...] = ()
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    cpu: dict[str, Any] = msgspec.field(default_factory=dict)
    gpu: dict[str, Any] = msgspec.field(default_factory=dict)
    ladder: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


# What a further workload of a script does not take over from the first.
_OWN = ("title", "suite", "published")


def read_workloads(path: Path, name: str) -> tuple[Workload, ...]:
    """Return the workload of a script, named `name`, and further ones that its metadata name.

    Raises:
        UsageError: no such file, not Python, or invalid metadata.
    """
    text = _read(path)
    tree = _parsed(text, path)
    main, block = _metadata(text, path)
    also = block.converted(main.pop("also", {}), dict[str, dict[str, Any]])
    result = [_workload(name, path, text, tree, main, block)]
    for other, values in also.items():
        # Values for a kind of device replace those for the other kind too.
        replaced = {*_OWN, "cpu", "gpu"} if {"cpu", "gpu"} & values.keys() else set(_OWN)
        inherited = {key: value for key, value in main.items() if key not in replaced}
        result.append(_workload(other, path, text, tree, {**inherited, **values}, block))
    return tuple(result)


def _workload(
    name: str, path: Path, text: str, tree: ast.Module, plain: Mapping[str, Any], block: _Block
) -> Workload:
    metadata = block.converted(plain, _Metadata)
    ladder = _ladder(metadata.ladder, path.name)
    others = {metadata.tuned, *(rung.script for rung in ladder.values())} - {"", path.name}
    for file in (*others, *metadata.components):
        if Path(file).name != file or not file.endswith(".py"):
            raise block.invalid(f"{file!r} is not the name of a script beside this one")
    params = {key: tuple(v) if isinstance(v, list) else v for key, v in metadata.params.items()}
    datasets = _keras_datasets(tree)
    if metadata.data is not None:
        datasets.insert(0, block.converted(metadata.data, Data))
    published = ({"source": metadata.source, **result} for result in metadata.published)
    result = Workload(
        name=name,
        file=path.name,
        title=metadata.title or printable(path.name),
        scripts={path.name: text, **{file: _read(path.parent / file) for file in sorted(others)}},
        # What the remedies import travels with the tuned script that they make.
        components={
            file: _read(COMPONENTS / file)
            for file in (metadata.components if metadata.tuned else (many_steps.COMPONENT,))
        },
        tuned=metadata.tuned,
        ladder=ladder,
        params={**constants(parameters(text)), **params},
        device_params={kind: params for kind in ("cpu", "gpu") if (params := getattr(metadata, kind))},
        datasets=tuple(datasets),
        published=tuple(block.converted(result, Published) for result in published),
        requests=metadata.requests,
        source=metadata.source,
        suite=metadata.suite,
        min_accuracy=metadata.accuracy,
        image=metadata.image,
    )
    if problem := next(_problems(result), ""):
        raise block.invalid(problem)
    return result


def _keras_datasets(tree: ast.Module) -> list[Data]:
    """Return the data sets of keras.datasets that a script mentions."""
    return [
        data for name, data in KERAS_DATASETS.items()
        if any(_mentions(node, name.replace("-", "_")) for node in ast.walk(tree))
    ]  # fmt: skip


def _mentions(node: ast.AST, module: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Attribute(attr="datasets") | ast.Name(id="datasets"), attr=name):
            return name == module
        case ast.ImportFrom(module=str(source), names=names) if source.endswith("datasets"):
            return any(alias.name == module for alias in names)
        case ast.ImportFrom(module=str(source)):
            return source.endswith(f"datasets.{module}")
        case ast.Import(names=names):
            return any(alias.name.endswith(f"datasets.{module}") for alias in names)
    return False


def _ladder(given: Mapping[str, Mapping[str, Any]], file: str) -> dict[str, Rung]:
    return {
        name: Rung(
            script=values.get("script", file),
            device=values.get("device", ""),
            params={key: value for key, value in values.items() if key not in ("script", "device")},
        )
        for name, values in given.items()
    }


def _problems(workload: Workload) -> Iterator[str]:
    """Describe values that are out of range."""
    if workload.name in RESERVED:
        yield f"{workload.name} cannot be the name of a workload"
    if len(workload.name) > MAX_NAME or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", workload.name):
        yield f"a workload's name has up to {MAX_NAME} letters, digits and hyphens, not {workload.name!r}"
    if workload.image not in IMAGES:
        yield f"image must be one of {', '.join(IMAGES)}"
    if not 0 <= workload.min_accuracy <= 1:
        yield "accuracy must lie between 0 and 1"
    chosen = {d.constant: "" for d in workload.datasets if d.constant}
    own = workload.scripts[workload.file]
    for file, values in (
        *((workload.file, param) for param in (*workload.device_params.values(), chosen, workload.params)),
        *((rung.script, rung.params) for rung in workload.ladder.values()),
    ):
        names = {*assigned(parameters(workload.scripts[file])), *assigned(parameters(own))}
        if missing := values.keys() - names:
            yield f"{', '.join(sorted(missing))} is not a constant of {file}"
        if strange := [name for name, value in values.items() if not _is_parameter(value)]:
            yield f"{strange[0]} must be a finite number, a text, true, false, or a list of these"
    for number in workload.published:
        yield from _published_problems(number)
    for data in workload.datasets:
        yield from _data_problems(data)
    requests = workload.requests
    sizes = (requests.batch_sizes, requests.compiled_batch_sizes) if requests else ((1,),)
    if not sizes[0] or any(list(size) != sorted(set(size)) or min(size, default=1) <= 0 for size in sizes):
        yield "requests must have ascending batch sizes above 0"
    if not all(0 < each <= MAX_VALUE for each in chain(*sizes, requests.bounds_ms if requests else ())):
        yield "batch sizes and bounds of requests must be above 0"


def _published_problems(number: Published) -> Iterator[str]:
    if number.unit not in UNITS or number.device not in ("cpu", "gpu"):
        yield f"published needs the device cpu or gpu, and a unit of {', '.join(UNITS)}"
    if not (0 <= number.value < math.inf and 0 <= number.upto < math.inf):
        yield "value and upto of published must be 0 or above"


def _data_problems(data: Data) -> Iterator[str]:
    names = data.class_names
    if min(data.shape, default=1) <= 0 or min(data.classes, data.train, data.test) <= 0:
        yield "shape, classes, train and test of data must be above 0"
    if not 0 < _bytes_of(data) <= MAX_DATA_BYTES:
        yield f"data must be numeric and smaller than {MAX_DATA_BYTES >> 40} TiB"
    if data.kind == "table" and (len(data.shape) != 1 or data.dtype != "float32"):
        yield 'data of kind "table" needs a shape [columns] of float32'
    if data.kind == "clicks" and (
        len(data.shape) != 2 or data.shape[1] > len(CARDINALITIES) or data.dtype != "float32"
    ):
        yield f'data of kind "clicks" needs a shape [numbers, up to {len(CARDINALITIES)} categories] of float32'
    if data.kind == "jpeg" and (len(data.shape) != 3 or data.shape[2] != 3):
        yield 'data of kind "jpeg" needs a shape [height, width, 3]'
    if not re.fullmatch(r"[\w-][\w.-]*", data.name):
        yield "the name of data has letters, digits and hyphens"
    if data.vocabulary and not MIN_VOCABULARY <= data.vocabulary <= MAX_VOCABULARY:
        yield f"vocabulary of data must be 0, or from {MIN_VOCABULARY} to {MAX_VOCABULARY}"
    if names and not (
        all(re.fullmatch(r"[\w-]+", name) for name in names)
        and len(names) == data.classes
        and tuple(sorted(set(names))) == names
    ):
        yield "class_names must name a folder for each class, in alphabetical order"


def _bytes_of(data: Data) -> float:
    """Return the size of a data set with one label per sample; 0 if the dtype is not numeric."""
    try:
        dtype = np.dtype(data.dtype)
        size = dtype.itemsize if dtype.kind in "biuf" else 0
        return float(max(1, data.train + data.test, data.classes) * (math.prod(data.shape) + 1) * size)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """The place of a script's metadata block, for messages."""

    path: Path
    line: int = 1

    def converted(self, plain: Any, kind: type[_T]) -> _T:
        """Return a part of the block as a typed value; unknown fields are errors."""
        try:
            if dataclasses.is_dataclass(kind):
                names = {field_.name for field_ in dataclasses.fields(kind)}
                if others := sorted(plain.keys() - names):
                    raise ValueError(f"unknown field `{others[0]}`")
            return msgspec.convert(plain, kind)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.invalid(str(error)) from error

    def invalid(self, reason: str, line: int = 0) -> UsageError:
        """Return the error of the block, or of one of its lines."""
        return UsageError(
            f"{self.path}, line {self.line + line}: the metadata are not valid: {printable(reason, 300)}.",
            hint="See docs/workloads.md for what the block `# /// tfbench` may hold.",
        )


def _metadata(text: str, path: Path) -> tuple[dict[str, Any], _Block]:
    match = _BLOCK.search(text)
    if match is None:
        return {}, _Block(path)
    block = _Block(path, text[: match.start()].count("\n") + 1)
    lines = match["content"].splitlines()
    try:
        plain = parse_toml("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines))
    except (ValueError, RecursionError) as error:
        number = re.search(r"line (\d+)", str(error))
        raise block.invalid(str(error), int(number[1]) if number else 0) from error
    return plain, block


def _read(path: Path) -> str:
    """Return a script's text as Python reads it: with its byte order mark, coding comment and line ends."""
    is_notebook = path.suffix == NOTEBOOK
    try:
        content = read_file(path, max_bytes=notebooks.MAX_BYTES if is_notebook else MAX_BYTES)
        text = notebooks.script_of(content, path) if is_notebook else decode_source(content)
        if len(text) > MAX_BYTES:
            raise UsageError(
                f"The code of {path} is larger than 1 MiB.", hint="Put data into files of their own."
            )
        return text if is_notebook else notebooks.plain_script(_with_utf8(text))
    except StoreError as error:
        most = f"notebooks at most {notebooks.MAX_BYTES >> 20}" if is_notebook else "scripts at most 1"
        raise UsageError(error.message, hint=path_hint(path, f"Check the path; {most} MiB.")) from error
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise UsageError(
            f"{path} cannot be read as text: {printable(str(error), 300)}.",
            hint="Save it as UTF-8, or name its encoding in its first line: # -*- coding: latin-1 -*-",
        ) from error


def _with_utf8(text: str) -> str:
    """Return a script whose coding comment, if it has one, names UTF-8, in which its text is written from here on."""
    lines = text.split("\n")
    for index, line in enumerate(lines[:2]):
        if found := _CODING.match(line):
            lines[index] = f"{line[: found.start('name')]}utf-8{line[found.end('name') :]}"
            return text if re.match("utf[-_]?8", found["name"], re.IGNORECASE) else "\n".join(lines)
        if not _NO_CODE.fullmatch(line):
            break
    return text


def _parsed(text: str, path: Path) -> ast.Module:
    try:
        return ast.parse(text, filename=str(path))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason, where = printable(str(error), 300) or "it is nested too deeply", str(path)
        if isinstance(error, SyntaxError) and error.lineno:
            reason, where = printable(error.msg, 300), place(where, text, error.lineno)
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise UsageError(
            f"{where} is not {version}, by which tfbench reads scripts: {reason.rstrip('.?')}.",
            hint=f"Run it with {version} to see why. If it is for a newer one, install tfbench with that.",
        ) from error


def parameters(text: str) -> ast.Module:
    """Return the statements of a script that may assign parameters: of the cells with a tag for them, else all."""
    tree = ast.parse(text)
    marks = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.startswith(CELL)]
    chosen = [number for number, line in marks if not {*PARAMETERS}.isdisjoint(tags(line))]
    if chosen:
        starts = [0, *(number for number, _ in marks)]
        tree.body = [each for each in tree.body if starts[bisect(starts, each.lineno) - 1] in chosen]
    return tree


def constants(tree: ast.Module) -> dict[str, Any]:
    """Return the constants of a module: name -> value. Lists are tuples."""
    result = {}
    for name, node in assigned(tree).items():
        try:
            literal = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        literal = tuple(literal) if isinstance(literal, list) else literal
        if _is_parameter(literal):
            result[name] = literal
    return result


def assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the expressions that are assigned to names at the top of a module; the last of a name counts.

    A name that changes by steps, such as `A += 1`, is left out.
    """
    own = dict(chain.from_iterable(map(_assignment, tree.body)))
    stepping = {
        each.target.id
        for each in _run_once(tree)
        if isinstance(each, ast.AugAssign | ast.For) and isinstance(each.target, ast.Name)
    }
    return {name: node for name, node in own.items() if name not in stepping}


def _assignment(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if not name.startswith("_"):
            yield name, value


def _run_once(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also within others, but not those of its functions and classes."""
    waiting: list[ast.AST] = [tree]
    while waiting:  # a chain of elif is as deep as it is long
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.stmt):
                yield node
            within = isinstance(node, ast.stmt | ast.excepthandler | ast.match_case)
            if within and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                waiting.append(node)


def _is_parameter(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return all(_is_scalar(part) for part in parts)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        # Documents hold no lone surrogates.
        return len(value) <= MAX_TEXT and value == value.encode(errors="replace").decode()
    return value is None or (isinstance(value, (bool, int, float)) and abs(value) <= MAX_VALUE)


def script_text(workload: Workload, variant: str, device: str, params: Mapping[str, Any]) -> tuple[str, str]:
    """Return file name and text of the script of a variant, with its values written over constants.

    Args:
        variant: baseline, tuned or an "opt:NAME".
        params: values chosen by the user and by sweeps; names that a script lacks do not apply to it.
    """
    rung = workload.ladder.get(OPTIMIZATION.argument(variant))
    file = rung.script if rung else workload.tuned if variant == TUNED else workload.file
    original = constants(parameters(workload.scripts[workload.file]))
    values = {name: value for name, value in workload.params.items() if value != original.get(name)}
    values |= workload.device_params.get(device, {})
    values |= {**(rung.params if rung else {}), **params}
    return file, with_values(workload.scripts[file], values)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return a script with literals for what is assigned to names at its top; line numbers stay.

    Names that it does not assign are ignored. Where it assigns one again, as in `if FAST: STEPS = 5`, it gets the
    literal too. A tuned script may choose by device what is a literal in the
    published one, as in `STEPS = 195 if GPU else 52`.
    """
    # As Python counts lines: other separators may stand in literals.
    lines = text.split("\n")
    tree = parameters(text)
    own, top = assigned(tree), {*tree.body}
    again = chain.from_iterable(_assignment(each) for each in _run_once(tree) if each not in top)
    nodes = sorted(
        ((node, values[name]) for name, node in (*own.items(), *again) if name in own and name in values),
        key=lambda pair: (-pair[0].lineno, -pair[0].col_offset),
    )
    for node, value in nodes:
        assert node.end_lineno is not None and node.end_col_offset is not None  # parsed from a text
        first, last = node.lineno - 1, node.end_lineno - 1
        before, after = lines[first].encode()[: node.col_offset], lines[last].encode()[node.end_col_offset :]
        made = list if isinstance(node, ast.List) else tuple
        literal = made(value) if isinstance(value, (list, tuple)) else value
        lines[first : last + 1] = [
            before.decode() + repr(literal) + after.decode(), *[""] * (last - first)
        ]  # fmt: skip
    return "\n".join(lines)


def check_params(params: Mapping[str, str], workloads: Sequence[Workload]) -> Mapping[str, tuple[Any, ...]]:
    """Convert comma-separated texts to different values of each constant's type; case does not matter in names.

    Raises:
        UsageError: no selected script has the constant, or the value is not valid.
    """
    available = {name: value for workload in workloads for name, value in workload.params.items()}
    names = {name.casefold(): name for name in available}
    for name in params:
        if name.casefold() not in names:
            if not available:
                files = ", ".join(workload.file for workload in workloads)
                raise UsageError(
                    f"Unknown parameter {name[:80]!r}: no constants in {files}.",
                    hint="Assign a literal to a name at the top of the script, such as `BATCH_SIZE = 32`.",
                )
            raise unknown("parameter", name, sorted(available))
    if len({name.casefold() for name in params}) < len(params):
        raise UsageError(
            f"--param has a name twice: {', '.join(params)}.",
            hint="Case does not matter. Give each name once; a sweep is --param BATCH_SIZE=32,64.",
        )
    result = {}
    for given, text in params.items():
        name = names[given.casefold()]
        parts = [text] if isinstance(available[name], tuple) else _parts(text)
        if not all(parts):
            raise UsageError(
                f"{name}={_shown(text)} is not valid: a value is empty.",
                hint="Write a comma between two values only: --param BATCH_SIZE=32,64.",
            )
        result[name] = tuple(dict.fromkeys(_parse(name, part, available[name]) for part in parts))
    return result


def _parts(text: str) -> list[str]:
    """Return the values that commas separate, of which those with commas stand in double quotes."""
    try:
        return [part.strip() for part in next(csv.reader([text], skipinitialspace=True, strict=True))] or [""]
    except csv.Error:
        return [part.strip() for part in text.split(",")]


def _shown(text: str) -> str:
    text = printable(text, 80)
    return text if text.isprintable() else repr(text)


def params_for(workload: Workload, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the subset of `params` that `workload` has."""
    return {name: value for name, value in params.items() if name in workload.params}


def _parse(name: str, text: str, default: Any) -> Any:
    kind = type(default)
    try:
        if kind in (bool, int, float):
            value = msgspec.convert(text, kind, strict=False)
            msgspec.convert(float(value), _Number)
            return value
        value = text if kind is str else ast.literal_eval(text)
        value = tuple(value) if isinstance(value, list) else value
        if _is_parameter(value) and isinstance(value, tuple) == (kind is tuple):
            return value
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        pass
    raise UsageError(
        f"{name}={_shown(text)} is not valid.",
        hint=f"Use {_EXPECTED.get(kind, 'a Python literal')}; the script has {name} = {default!r}.",
    )
