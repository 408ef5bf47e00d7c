"""What comes from outside and may be damaged or hostile: files, JSON and text are read through here only."""

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

MOST_BYTES = 1 << 30
MOST_DEPTH = 64
LONGEST_TEXT = 1 << 20
_TERMINAL_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; a pipe, a device or a folder is refused without waiting for it.

    Args:
        follow: whether the file may be a symbolic link.

    Raises:
        OSError: it is not there, or not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:  # a null byte in the path
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "it is not a plain file"
        raise OSError(errno.EINVAL, what, str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, not a path


def read_file(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a file's content.

    Raises:
        StoreError: it is not there, not a regular file, larger than `most_bytes` or cannot be read.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size <= most_bytes:
                return file.read(most_bytes)
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror}.", hint="Check the path.") from error
    raise StoreError(f"{path} is larger than {most_bytes >> 20} MiB.", hint="Name a file that tfbench wrote.")


def parse_json(content: bytes | str) -> Any:
    """Return plain values with all text printable.

    Raises:
        ValueError: it is not JSON, or nested deeper than MOST_DEPTH.
    """
    try:
        return cleaned(json.loads(content))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_object(path: Path, *, most_bytes: int = 64 << 20) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        StoreError: it cannot be read or is none.
    """
    try:
        value = parse_json(read_file(path, most_bytes=most_bytes))
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.", hint="Restore it from a copy.") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it is not a JSON object.", hint="Restore it from a copy.")
    return value


def cleaned(value: Any, longest: int = LONGEST_TEXT, depth: int = MOST_DEPTH) -> Any:
    """Return plain values with all text in them printable.

    Raises:
        ValueError: they are nested deeper than `depth`.
    """
    if isinstance(value, str):
        return printable(value, longest)
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        return {
            cleaned(name, longest, depth - 1): cleaned(each, longest, depth - 1)
            for name, each in value.items()
        }
    return type(value)(cleaned(each, longest, depth - 1) for each in value)


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return text that any terminal, page or file can hold, cut to a length.

    Terminal escapes are taken out; other control characters and lone surrogates become U+FFFD.
    """
    if not text.isprintable():
        text = "".join(map(_printable_character, _TERMINAL_ESCAPE.sub("", text)))
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _printable_character(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else "\ufffd"
