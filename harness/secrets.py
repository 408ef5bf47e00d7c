"""What of a user's options and of texts is not recorded or shown.

A run records variables of --env by name only, except for those that say how to measure; likewise the values of options
of the script that are named like secrets. What is not recorded is also replaced where it appears in a text.
"""

from __future__ import annotations

import ast
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from workloads.hiding import HIDDEN, SHORTEST, SHORTEST_OTHER, without

# Variables that say how frameworks and libraries compute, which whoever reads a run must know.
_MEASURED = re.compile(
    "(TF|XLA|KERAS|OMP|KMP|MKL|GOMP|OPENBLAS|BLIS|DNNL|ONEDNN|NCCL|CUDA|CUDNN|CUBLAS|NVIDIA|MALLOC)_.*"
    "|PYTHON[A-Z]*|LD_PRELOAD|LD_LIBRARY_PATH|GLIBC_TUNABLES|LANG|LC_[A-Z]+|TZ"
)
# Parts of names; the weak ones name other things too, whose values are short numbers.
_STRONG = re.compile(
    "passw|passphrase|passwd|secret|credential|apikey|accesskey|privatekey|secretkey|signingkey|authkey|authtoken|"
    "accesstoken|refreshtoken|connectionstring|webhook|bearer|jwt|htpasswd|netrc|dockerconfig|kubeconfig|encryptionkey|"
    "masterkey|storagekey|accountkey|sharedkey|deploykey|servicekey|sshkey|licensekey|clientkey"
)
_WEAK = re.compile(
    "([a-z0-9]*(token|pass|pwd|auth|cookie|session|key))|keys|tokens?|pw|creds?|sas|sid|pat|dsn|otp|pin|salt|cert|pem|"
    "authorization|cookies|sessionid|signature|sig|login|cred"
)
_OF_OTHERS = ("mode", "type", "method", "format", "count", "size", "dim", "len", "length", "ttl", "timeout")
# In a text, what has such a name is mostly something else.
_LOOSE = re.compile("(key|keys|session|pin|salt|sid|sig|cert|login|pass)$", re.IGNORECASE)
_HARMLESS = re.compile(r"[-+]?[\d.]{0,5}(e[-+]?\d+)?|true|false|yes|no|on|off|none|null|auto", re.IGNORECASE)
# As secret scanners know them.
_FORMATS = re.compile(
    r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_\w{30,}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20,}|\bgl(?:dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}"
    r"|\bxox[a-z]-[\w-]{10,}|\bxapp-\d-[\w-]{10,}|https://hooks\.slack\.com/[\w/+-]{20,}"
    r"|\bsk-[\w-]{20,}|\b[sr]k_(?:live|test|prod)_\w{10,}|\bwhsec_\w{20,}|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\bhf_[A-Za-z0-9]{30,}|\bapi_org_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"
    r"|\bpypi-[\w-]{50,}|\bdo[oprt]_v1_[a-f0-9]{64}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bkey-[0-9a-f]{32}\b|\bdckr_pat_[\w-]{20,}"
    r"|\bglsa_\w{32,}|\bhv[sb]\.[\w-]{20,}|\bATATT3[\w=-]{50,}|\bsq0[a-z]{3}-[\w-]{20,}|\bpul-[a-f0-9]{40}|\brubygems_[a-f0-9]{48}"
    r"|\bdapi[a-f0-9]{32}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|\blin_api_\w{30,}|\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"
    r"|\b(?:SK|AC)[a-f0-9]{32}\b|\bNRAK-[A-Z0-9]{27}|\bsntrys_[\w=+/]{30,}|\b\d{8,10}:AA[\w-]{32,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]*-----END [A-Z ]*-----|[\s\S]*)"
    r"|(?<=\bbearer )[\w.~+/=-]{12,}|(?<=\bbasic )[A-Za-z0-9+/=]{12,}|(?<=[?&]sig=)[\w%+/=-]{12,}",
    re.IGNORECASE,
)
# The user of an address ends at its last @, because a password may contain one.
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s'\"]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s'\"]*)@")
# What stands for a password in the text of an address: %s, {}, <password>, $PASSWORD, ***.
_PLACEHOLDER = re.compile(r"|%(\(\w+\))?s|\{[^{}]*\}|<[^<>]*>|\$\w+|\$\{\w+\}|\*+|\.{3}")
_PAIR = re.compile(r"(?P<name>[A-Za-z_][\w.-]{0,99})(?P<sign>=)(?P<value>[^\s&'\"]+)")


def names_secret(name: str, value: str = "") -> bool:
    """Return whether a name of a variable, an option or a constant is one of a secret, which has this value."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if _STRONG.search("".join(words)):
        return True
    if words and words[-1] in _OF_OTHERS:
        return False
    return any(_WEAK.fullmatch(word) for word in words) and not (value and _HARMLESS.fullmatch(value))


def without_secrets(text: str) -> str:
    """Remove user names and passwords from addresses, values with names of secrets, and what looks like a secret."""

    def pair(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        loose = _LOOSE.search(name) and not _STRONG.search(re.sub(r"[\W_]", "", name).lower())
        meant = value.strip(".") and names_secret(name, value)  # not as in a hint
        return f"{name}={HIDDEN}" if meant and (_is_mixed(value) or not loose) else found[0]

    return _PAIR.sub(pair, _FORMATS.sub(HIDDEN, _USER.sub(r"\1", text)))


def secrets_in(script: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each text in a script that looks like a secret, "a text" or "a comment" without a name."""
    tree = ast.parse(script)
    for number, line in enumerate(script.splitlines(), 1):
        comment = line.rpartition("#")[2] if "#" in line else ""
        if _FORMATS.search(comment) and "'" not in comment and '"' not in comment:
            yield number, "a comment"
    names: dict[ast.Constant, str] = {}
    for node in ast.walk(tree):
        for name, value in _named_texts(node):
            names |= dict.fromkeys(_literals(value), name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
            password = (found := _PASSWORD.search(text)) and not _PLACEHOLDER.fullmatch(found[1])
            named = node in names and _is_mixed(text) and names_secret(names[node], text)
            if named or password or _FORMATS.search(text):
                yield node.lineno, names.get(node, "") or "a text"


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


def _is_mixed(text: str) -> bool:
    """Return whether a text is long and has digits, as secrets have and most words do not."""
    return len(text) >= SHORTEST_OTHER and bool(re.search(r"\d", text)) and not re.search(r"\s", text)


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
    parts = [
        part
        for _, value in private
        for name, part in _parts(value)
        if _is_mixed(part) or _is_named_secret(name, part)
    ]
    return tuple(sorted({*whole, *parts}))


def _is_named_secret(name: str, value: str) -> bool:
    """Return whether a part of a value is named as a secret, and long enough to be searched for."""
    return bool(name) and len(value) >= SHORTEST and names_secret(name, value)


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
    """Yield the texts in a JSON document, with the names before them."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict) and depth:
        for key, inner in value.items():
            yield from _texts_in(inner, str(key), depth - 1)
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
