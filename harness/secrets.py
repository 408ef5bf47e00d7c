"""What of a user's options and of texts is not recorded or shown.

A run records variables of --env by name only, except for those that say how to measure; likewise the values of options
of the script that are named like secrets. What is not recorded is also replaced where it appears in a text.
"""

from __future__ import annotations

import ast
import configparser
import io
import itertools
import json
import netrc
import re
import shlex
import tokenize
import tomllib
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import yaml

from workloads.cells import left_out
from workloads.hiding import (
    HIDDEN,
    PAIR,
    SECRET_FORMATS,
    SHORTEST,
    SHORTEST_OTHER,
    is_mixed,
    is_secret_setting,
    named_secrets,
    names_secret,
    without,
    without_secrets,
)

# Variables that say how frameworks and libraries compute, which whoever reads a run must know.
_MEASURED = re.compile(
    "(TF|XLA|KERAS|OMP|KMP|MKL|GOMP|OPENBLAS|BLIS|DNNL|ONEDNN|NCCL|CUDA|CUDNN|CUBLAS|NVIDIA|MALLOC)_.*"
    "|PYTHON[A-Z]*|LD_PRELOAD|LD_LIBRARY_PATH|GLIBC_TUNABLES|LANG|LC_[A-Z]+|TZ"
)
# Files of settings, which scripts read, and their size in bytes.
_SETTINGS = (".env", ".json", ".toml", ".ini", ".cfg", ".conf", ".yaml", ".yml", ".properties")
_MOST_SETTINGS = 1 << 18
_MOST_VALUES = 20_000
# Its value may be quoted over several lines.
_VARIABLE = re.compile(
    r"""^\s*(?:export\s+)?(?P<name>[\w.-]+)[ \t]*=[ \t]*(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|.*)""",
    re.MULTILINE,
)
_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s'\"]*)@")
# What stands for a password in the text of an address: %s, {}, <password>, $PASSWORD, ***.
_PLACEHOLDER = re.compile(r"|%(\(\w+\))?s|\{[^{}]*\}|<[^<>]*>|\$\w+|\$\{\w+\}|\*+|\.{3}")


def secrets_in(script: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each text in a script that looks like a secret.

    Without a name it is "a text", "a comment", or "a line that is left out" of a notebook.
    """
    names: dict[ast.Constant, str] = {}
    nodes = list(ast.walk(ast.parse(script)))
    for node in nodes:
        for name, value in _named_texts(node):
            names |= dict.fromkeys(_literals(value), name)
    told = set[int]()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
            named = node in names and is_mixed(text) and names_secret(names[node], text)
            if named or _has_secret(text):
                told.add(node.lineno)
                yield node.lineno, names.get(node, "") or "a text"
    for token in tokenize.generate_tokens(io.StringIO(script).readline):
        if token.type == tokenize.COMMENT and token.start[0] not in told and _has_secret(token.string):
            yield token.start[0], "a line that is left out" if left_out(token.string) else "a comment"


def _has_password(text: str) -> bool:
    return (found := _PASSWORD.search(text)) is not None and not _PLACEHOLDER.fullmatch(found[1])


def _has_secret(text: str) -> bool:
    """Return whether a text, or a comment such as a command of a notebook that is left out, has what looks like one."""
    pairs = PAIR.finditer(text)
    named = any(is_mixed(each["value"]) and names_secret(each["name"], each["value"]) for each in pairs)
    return named or _has_password(text) or SECRET_FORMATS.search(text) is not None


def _literals(value: ast.expr) -> Iterator[ast.Constant]:
    """Yield the texts that an expression may be, as it is or changed by a method."""
    match value:
        case ast.Constant():
            yield value
        case ast.IfExp(body=first, orelse=second):
            yield from (*_literals(first), *_literals(second))
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            for each in values:
                yield from _literals(each)
        case ast.Call(func=ast.Attribute(value=ast.Constant() as changed)):
            yield changed


def _named_texts(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions that a node binds to names or keys."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from ((_last_name(each), value) for each, value in zip(targets, values, strict=False))
        case ast.Assign(targets=targets, value=value):
            yield from ((_last_name(each), value) for each in targets)
        case ast.Call(args=[ast.Constant(value=str(name)), value]):  # environ.setdefault, get
            yield name, value
        case ast.arguments(args=given, defaults=defaults, kwonlyargs=named, kw_defaults=others):
            yield from (
                (each.arg, value) for each, value in zip(reversed(given), reversed(defaults), strict=False)
            )
            yield from ((each.arg, value) for each, value in zip(named, others, strict=True) if value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield _last_name(target), value
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.Dict(keys=keys, values=values):
            yield from (
                (str(key.value), value)
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, ast.Constant)
            )


def _last_name(target: ast.expr) -> str:
    match target:
        case (
            ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name)))
        ):
            return name
    return ""


def recorded_value(name: str, value: str) -> str:
    """Return the value of a variable as a run records it."""
    plain = without_secrets(value) == value and not names_secret(name, value)
    return value if not value or (plain and _MEASURED.fullmatch(name)) else HIDDEN


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables as a run records them."""
    return {name: recorded_value(name, value) for name, value in environment.items()}


def recorded_arguments(arguments: Sequence[str], hidden: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the arguments of a script as a run records them.

    Args:
        hidden: texts that they must not contain.
    """
    before, result = "", []
    hidden = tuple(hidden)
    for word in arguments:
        option, sign, value = word.partition("=")
        if sign and names_secret(option, value):
            word = f"{option}={HIDDEN}"  # noqa: PLW2901
        elif before.startswith("-") and not word.startswith("--") and names_secret(before, word):
            word = HIDDEN  # noqa: PLW2901
        elif any(_is_named_secret(name, part) for text in (word, value) for name, part in _parts(text)):
            word = f"{option}={HIDDEN}" if sign and option.startswith("-") else HIDDEN  # noqa: PLW2901
        result.append(without(without_secrets(word), hidden))
        before = "" if sign else word
    return tuple(result)


def variable_of(arguments: Sequence[str], position: int) -> str:
    """Return the name of the variable that an argument which is not recorded is taken from.

    Args:
        arguments: as they are recorded.
    """
    option, sign, _ = arguments[position].partition("=")
    if not sign:
        option = arguments[position - 1] if position else ""
        option = "" if "=" in option else option
    plain = re.sub(r"\W+", "_", option.strip("-")).upper()
    return plain if re.fullmatch("[A-Z_][A-Z0-9_]*", plain) else f"ARG_{position + 1}"


def searched(environment: Mapping[str, str], arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the texts that no other text may contain: what is not recorded, unless it is too short for that."""
    private = [item for item in environment.items() if recorded_value(*item) == HIDDEN]
    private += private_arguments(arguments, recorded_arguments(arguments))
    whole = [
        value for name, value in private if len(value) >= (SHORTEST if names_secret(name) else SHORTEST_OTHER)
    ]
    return tuple(sorted({*whole}.union(*(_secret_parts(value) for _, value in private))))


@cache  # for all trials of a run
def secrets_beside(folder: Path) -> tuple[str, ...]:
    """Return the values that files of settings in a folder name like secrets."""
    found = set[str]()
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            is_setting = path.suffix in _SETTINGS or path.name.startswith((".env", ".netrc"))
            if is_setting and path.is_file() and path.stat().st_size <= _MOST_SETTINGS:
                with suppress(OSError):
                    text = path.read_text(encoding="utf-8", errors="replace")
                    found.update(named_secrets(text))
                    values = itertools.islice(_texts_in(_settings(path, text)), _MOST_VALUES)
                    secrets = [
                        value.strip()
                        for name, value in values
                        if is_secret_setting(name, value)
                        or _has_password(value)
                        or SECRET_FORMATS.search(value)
                    ]
                    found.update(secrets, *map(_secret_parts, secrets))
    return tuple(sorted(found))


def _settings(path: Path, text: str) -> object:
    """Return what a file of settings holds, as its format says; without a format, the variables that it sets."""
    with suppress(ValueError, RecursionError, yaml.YAMLError, configparser.Error, netrc.NetrcParseError):
        match path.suffix or path.name:
            case ".json":
                return json.loads(text)
            case ".toml":
                return tomllib.loads(text)
            case ".yaml" | ".yml":
                return list(yaml.safe_load_all(text))
            case ".netrc":
                return [{"password": password} for _, _, password in netrc.netrc(path).hosts.values()]
            case ".ini" | ".cfg" | ".conf" | ".properties":
                plain, found = configparser.RawConfigParser(strict=False), []
                plain.read_string(text)
                for section in plain.values():
                    found += [{**section}, {name: each.replace("%%", "%") for name, each in section.items()}]
                return found
    return [{found["name"]: _unquoted(found["value"])} for found in _VARIABLE.finditer(text)]


def _unquoted(value: str) -> str:
    """Return the value of a variable as a shell reads it."""
    with suppress(ValueError):
        return " ".join(shlex.split(value, comments=True))
    return value


def _is_named_secret(name: str, value: str) -> bool:
    """Return whether a part of a value is named as a secret, and long enough to be searched for."""
    return bool(name) and len(value) >= SHORTEST and names_secret(name, value)


def _secret_parts(value: str) -> set[str]:
    """Return the parts of a secret value that are secrets by themselves."""
    return {part for name, part in _parts(value) if is_mixed(part) or _is_named_secret(name, part)}


def _parts(value: str, depth: int = 4) -> Iterator[tuple[str, str]]:
    """Yield the parts of a secret value that a program may print by themselves, with their names; "" without one.

    A value may be JSON, an address, pairs of names and values, or a list.
    """
    try:
        inner = json.loads(value) if depth else None
    except (ValueError, RecursionError):
        inner = None
    if isinstance(inner, (dict, list)):
        for name, text in _texts_in(inner):
            yield name, text
            yield from _parts(text, depth - 1)
        return
    named = [("password", found[1])] if (found := _PASSWORD.search(value)) else []
    for piece in re.split(r"[?&;,{}\s]+", re.sub(r"(?<=[=:])[ \t]+", "", value)):
        name, _, text = piece.partition("=" if "=" in piece else ":")
        named += [] if "://" in piece else [("", piece), (name, text.strip("'\""))]
    for name, text in [*named, ("", value.strip())]:
        yield from ((name, form) for form in (text, urllib.parse.unquote_plus(text)))


def _texts_in(value: object, name: str = "", depth: int = 20) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in a document such as JSON, with the names before them."""
    if isinstance(value, (str, int, float)):
        yield name, str(value)
    elif isinstance(value, dict) and depth:
        if isinstance(value.get("name"), str) and "value" in value:  # as containers have their variables
            yield from _texts_in(value["value"], value["name"], depth - 1)
        for key, inner in value.items():
            yield from _texts_in(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif isinstance(value, list) and depth:
        for inner in value:
            yield from _texts_in(inner, name, depth - 1)


def private_arguments(arguments: Sequence[str], recorded: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each argument that is not recorded as it is: the variable that it is taken from, and its value.

    The value is that of `--name=value`, or a whole argument, which may have an equals sign too.
    """
    for position, (word, shown) in enumerate(zip(arguments, recorded, strict=True)):
        if shown != word:
            option, sign, value = word.partition("=")
            named = sign and shown.startswith(f"{option}=")
            yield variable_of(recorded, position), value if named else word


def recorded_command(words: Sequence[str]) -> list[str]:
    """Return a command line as a run records it."""
    options = {"--env": "", "--arg": ""}
    values: dict[str, list[tuple[int, str]]] = {name: [] for name in options}
    result, before = [], ""
    for position, word in enumerate(words):
        name, sign, value = word.partition("=")
        result.append(without_secrets(word))
        if before in options:
            values[before].append((position, word))
        elif name in options and sign:
            values[name].append((position, value))
        before = "" if before in options else word
    pairs = [(position, *value.partition("=")) for position, value in values["--env"]]
    private = [value for _, name, _, value in pairs if recorded_value(name, value) == HIDDEN]
    long = [value for value in private if len(value) >= SHORTEST_OTHER]
    shown = {position: f"{name}={recorded_value(name, value)}" for position, name, _, value in pairs}
    arguments = recorded_arguments([value for _, value in values["--arg"]], long)
    shown |= {position: text for (position, _), text in zip(values["--arg"], arguments, strict=True)}
    for position, text in shown.items():
        option = next((f"{name}=" for name in options if words[position].startswith(f"{name}=")), "")
        result[position] = option + text
    return [word if position in shown else without(word, long) for position, word in enumerate(result)]
