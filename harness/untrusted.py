"""Read files, JSON, TOML and text that may be damaged or hostile."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import subprocess
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import StoreError

MAX_BYTES = 1 << 30
MAX_DEPTH = 64
MAX_TEXT = 1 << 20
# Of a script, which fixes make longer.
MAX_SCRIPT = 2 << 20
MAX_NUMBER = 1e100
# In a line of TOML: the time it takes grows with the square of the parts of a key such as a.b.c.
MAX_DOTS = 200
# Values in one document. The largest recorded run has 60,000.
MAX_VALUES = 4_000_000
_ADDRESS = re.compile("(?:^|/)[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_TERMINAL_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; reject pipes, devices and folders without blocking.

    Args:
        follow: whether the file may be a symbolic link.

    Raises:
        OSError: the file is missing or not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:  # a null byte in the path
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "not a regular file"
        raise OSError(errno.EINVAL, reason, str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, not a path


def remove_tree(folder: Path) -> None:
    """Remove what permissions allow of a folder; no error if it does not exist."""
    # Python's own function fails for trees that are deeper than its recursion, such as a container may leave.
    subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def path_hint(path: Path, hint: str) -> str:
    """Return what to try if there is nothing at `path`: `hint`, or to download it if it is the address of something."""
    return "Download it first: addresses are not read." if _ADDRESS.search(str(path)) else hint


def read_file(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a file's content.

    Raises:
        StoreError: the file is missing, not a regular file, larger than `max_bytes` or not readable.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size <= max_bytes:
                return file.read(max_bytes)
    except OSError as error:
        hint = path_hint(path, "Check the path, or save it to a file first.")
        raise StoreError(f"Cannot read {path}: {error.strerror}.", hint=hint) from error
    raise StoreError(f"{path} is larger than {max_bytes >> 20} MiB.", hint="Give a file written by tfbench.")


def parse_json(content: bytes | str) -> Any:
    """Parse JSON and make all text printable.

    Raises:
        ValueError: not JSON, nested deeper than MAX_DEPTH, or with more than MAX_VALUES values or a huge number.
    """
    separators = ",[{" if isinstance(content, str) else (b",", b"[", b"{")
    if sum(map(content.count, separators)) > MAX_VALUES:  # type: ignore[arg-type]
        raise ValueError("it has too many values")
    try:
        return sanitized(json.loads(content))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML and make all text printable.

    Raises:
        ValueError, RecursionError: not TOML, or with more than MAX_DOTS dots in a line.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            raise ValueError(f"more than {MAX_DOTS} dots in a line (line {number}); break it into several")
    document: dict[str, Any] = sanitized(tomllib.loads(text))
    return document


# Types of MessagePack: bytes after the type; bytes of a length; bytes of a count, and values per item.
_FIXED = {0xCA: 4, 0xCB: 8, **{0xCC + power: 1 << power for power in range(4)}}
_FIXED |= {0xD0 + power: 1 << power for power in range(4)} | dict.fromkeys((0xC0, 0xC2, 0xC3), 0)
_SIZED = {first + power: 1 << power for first in (0xC4, 0xD9) for power in range(3)}
_NESTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def check_message_pack(content: bytes) -> None:
    """Check a MessagePack document before it is decoded, because a byte may become an object of 64 bytes.

    Raises:
        ValueError: truncated, nested deeper than MAX_DEPTH, or with more than MAX_VALUES values.
    """
    at, values, pending = 0, 0, [1]
    while pending:
        if not pending[-1]:
            pending.pop()
            continue
        pending[-1] -= 1
        values += 1
        if values > MAX_VALUES or len(pending) > MAX_DEPTH:
            raise ValueError("it has too many values" if values > MAX_VALUES else "it is nested too deeply")
        if at >= len(content):
            raise ValueError("it is truncated")
        kind = content[at]
        at += 1
        if kind < 0x80 or kind >= 0xE0:  # a small integer
            continue
        if kind < 0xA0:
            pending.append((kind & 15) * (1 if kind & 16 else 2))
        elif kind < 0xC0:
            at += kind & 31
        elif kind in _FIXED:
            at += _FIXED[kind]
        elif kind in _SIZED:
            at += _SIZED[kind] + int.from_bytes(content[at : at + _SIZED[kind]])
        elif kind in _NESTED:
            width, each = _NESTED[kind]
            pending.append(int.from_bytes(content[at : at + width]) * each)
            at += width
        else:
            raise ValueError(f"it has the unknown type {kind:#x}")


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        StoreError: the file cannot be read, or is not a JSON object.
    """
    try:
        value = parse_json(read_file(path, max_bytes=64 << 20))
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.", hint="Restore it from a copy.") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it is not a JSON object.", hint="Restore it from a copy.")
    return value


def sanitized(
    value: Any, max_length: int = MAX_TEXT, depth: int = MAX_DEPTH, *, verbatim: bool = False
) -> Any:
    """Make text in nested values printable, and numbers beyond MAX_NUMBER, or as near to zero, that and zero.

    Args:
        verbatim: text is a script's, as it is below the name "scripts". What shows it replaces the characters that it
            cannot show.

    Raises:
        ValueError: nested deeper than `depth`, or with a number that is not finite or has more than 64 bits.
    """
    if isinstance(value, str):
        if verbatim:
            return value.encode(errors="replace").decode()[:MAX_SCRIPT]
        return printable(value, max_length)
    if not isinstance(value, (Mapping, list, tuple)):
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ValueError("it has a number that is too large")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("it has a number that is not finite")
        if isinstance(value, float) and value and not 1 / MAX_NUMBER <= abs(value) <= MAX_NUMBER:
            # Their sums and ratios would not be finite.
            return math.copysign(MAX_NUMBER if abs(value) > 1 else 0.0, value)
        return value
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        return {
            sanitized(name, max_length, depth - 1): sanitized(
                each, max_length, depth - 1, verbatim=verbatim or name == "scripts"
            )
            for name, each in value.items()
        }
    return type(value)(sanitized(each, max_length, depth - 1, verbatim=verbatim) for each in value)


def printable(text: str, max_length: int = MAX_TEXT) -> str:
    """Make text safe for terminals, pages and files, and truncate it.

    Terminal escapes are removed; other control characters and lone surrogates become U+FFFD.
    """
    if not text.isprintable():
        text = "".join(map(_printable_character, _TERMINAL_ESCAPE.sub("", text)))
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def _printable_character(character: str) -> str:
    """Return a character that moves, hides or reorders no others as it is: also spaces, joiners and soft hyphens."""
    if character.isprintable() or character in "\n\t\f":
        return character
    joins = unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) == "BN"
    if joins or unicodedata.category(character) == "Zs":
        return character
    return " " if character.isspace() else "\ufffd"
