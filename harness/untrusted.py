"""Read files, JSON and text that may be damaged or hostile."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import StoreError

MAX_BYTES = 1 << 30
MAX_DEPTH = 64
MAX_TEXT = 1 << 20
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
        raise StoreError(f"Cannot read {path}: {error.strerror}.", hint="Check the path.") from error
    raise StoreError(f"{path} is larger than {max_bytes >> 20} MiB.", hint="Give a file written by tfbench.")


def parse_json(content: bytes | str) -> Any:
    """Parse JSON and make all text printable.

    Raises:
        ValueError: not JSON, or nested deeper than MAX_DEPTH.
    """
    try:
        return sanitized(json.loads(content))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_object(path: Path, *, max_bytes: int = 64 << 20) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        StoreError: the file cannot be read, or is not a JSON object.
    """
    try:
        value = parse_json(read_file(path, max_bytes=max_bytes))
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.", hint="Restore it from a copy.") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it is not a JSON object.", hint="Restore it from a copy.")
    return value


def sanitized(value: Any, max_length: int = MAX_TEXT, depth: int = MAX_DEPTH) -> Any:
    """Make all text in nested values printable.

    Raises:
        ValueError: nested deeper than `depth`.
    """
    if isinstance(value, str):
        return printable(value, max_length)
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        return {
            sanitized(name, max_length, depth - 1): sanitized(each, max_length, depth - 1)
            for name, each in value.items()
        }
    return type(value)(sanitized(each, max_length, depth - 1) for each in value)


def printable(text: str, max_length: int = MAX_TEXT) -> str:
    """Make text safe for terminals, pages and files, and truncate it.

    Terminal escapes are removed; other control characters and lone surrogates become U+FFFD.
    """
    if not text.isprintable():
        text = "".join(map(_printable_character, _TERMINAL_ESCAPE.sub("", text)))
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def _printable_character(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else "\ufffd"
