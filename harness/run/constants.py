"""Constants of a script: names at its top that hold literals. They are its parameters."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from harness.errors import UsageError, unknown
from harness.model.workload import Workload
from harness.untrusted import printable
from workloads.protocol import OPTIMIZATION_PREFIX, TUNED

# Integers up to this are exact as floating-point numbers.
MAX_VALUE = 1 << 53
# Longer literals are no parameters.
MAX_TEXT = 1000
_EXPECTED: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    tuple: "a Python literal, such as (32, 64)",
}
_Number = Annotated[float, msgspec.Meta(ge=-MAX_VALUE, le=MAX_VALUE)]


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
    """Return the expressions that are assigned to names at the top of a module; the last of a name counts."""
    result: dict[str, ast.expr] = {}
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if not name.startswith("_"):
                result[name] = value
    return result


def _is_parameter(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return all(_is_scalar(part) for part in parts)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or (isinstance(value, (bool, int, float)) and abs(value) <= MAX_VALUE)


def script_text(workload: Workload, variant: str, device: str, params: Mapping[str, Any]) -> tuple[str, str]:
    """Return file name and text of the script of a variant, with its values written over constants.

    Args:
        variant: baseline, tuned or an "opt:NAME".
        device: "cpu" or "gpu".
        params: values chosen by the user and by sweeps; names that a script lacks do not apply to it.
    """
    rung = workload.ladder.get(variant.removeprefix(OPTIMIZATION_PREFIX))
    file = rung.script if rung else workload.tuned if variant == TUNED else workload.file
    original = constants(ast.parse(workload.scripts[workload.file]))
    values = {name: value for name, value in workload.params.items() if value != original.get(name)}
    values |= workload.device_params.get(device, {})
    values |= {**(rung.params if rung else {}), **params}
    return file, with_values(workload.scripts[file], values)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return a script with literals for what is assigned to names at its top; line numbers stay.

    Names that it does not assign are ignored. A tuned script may choose by device what is a literal in the
    published one, as in `STEPS = 195 if GPU else 52`.
    """
    # As Python counts lines: other separators may stand in literals.
    lines = text.split("\n")
    own = assigned(ast.parse(text))
    nodes = sorted(
        ((own[name], values[name]) for name in values if name in own),
        key=lambda each: (-each[0].lineno, -each[0].col_offset),
    )
    for node, value in nodes:
        assert node.end_lineno is not None and node.end_col_offset is not None  # parsed from a text
        first, last = node.lineno - 1, node.end_lineno - 1
        before, after = lines[first].encode()[: node.col_offset], lines[last].encode()[node.end_col_offset :]
        literal = tuple(value) if isinstance(value, list) else value
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
                raise UsageError(
                    f"Unknown parameter {name[:80]!r}: no constants in {', '.join(each.file for each in workloads)}.",
                    hint="Assign a literal to a name at the top of the script, such as `BATCH_SIZE = 32`.",
                )
            raise unknown("parameter", name, sorted(available))
    result = {}
    for given, text in params.items():
        name = names[given.casefold()]
        parts = [text] if isinstance(available[name], tuple) else _parts(text)
        result[name] = tuple(dict.fromkeys(_parse(name, part, available[name]) for part in parts))
    return result


def params_for(workload: Workload, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the subset of `params` that `workload` has."""
    return {name: value for name, value in params.items() if name in workload.params}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] or [text]


def _parse(name: str, text: str, default: Any) -> Any:
    kind = type(default)
    try:
        if kind in (bool, int, float):
            value = msgspec.convert(text, kind, strict=False)
            msgspec.convert(float(value), _Number)
            return value
        if kind is str:
            return text
        value = ast.literal_eval(text)
        value = tuple(value) if isinstance(value, list) else value
        if _is_parameter(value) and isinstance(value, tuple) == (kind is tuple):
            return value
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        pass
    raise UsageError(
        f"{name}={printable(text, 80)} is not valid.",
        hint=f"Use {_EXPECTED.get(kind, 'a Python literal')}; the script has {name} = {default!r}.",
    )
