"""Read hash-pinned requirement locks and tell which wheel files fit them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from harness.errors import ImageError

# What TensorFlow's own wheels ask for: glibc 2.28 at the most. Newest first, as pip ranks them.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)
_PIN = re.compile(r"([\w.-]+)==(\S+)((?: --hash=sha256:\w+)+)")
_SHA256 = re.compile(r"sha256:(\w+)")
# Written by images/lock.sh.
_SIZE = re.compile(r"^# (\S+): (\d+) bytes$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One requirement of a lock: a single version, and the sha256 of every file allowed to be it.

    `size` is that of its wheel, bytes; 0 where the lock does not say.
    """

    name: str
    version: str
    sha256: frozenset[str]
    size: int = 0

    @property
    def text(self) -> str:
        """The pin as pip's requirement files write it."""
        return f"{self.name}=={self.version} " + " ".join(f"--hash=sha256:{h}" for h in sorted(self.sha256))


def read_lock(lock: Path) -> tuple[Pin, ...]:
    """Read a lock in pip's requirements format.

    Raises:
        ImageError: the file is missing, or a line is not one exact version with its sha256.
    """
    try:
        text = re.sub(r"\s*\\\n\s*", " ", lock.read_text(encoding="utf-8"))
        sizes = {name: int(size) for name, size in _SIZE.findall(text)}
        lines = (line.partition(" #")[0] for line in text.splitlines() if not line.startswith("#"))
        pins = tuple(_pin(line, sizes) for line in lines if line)
        if not pins:
            raise ValueError("it pins nothing")
    except (OSError, ValueError) as error:
        raise ImageError(
            f"The lock {lock} cannot be read: {error}.",
            hint="Restore the file from the repository, or make it again with `make lock`.",
        ) from error
    return pins


def _pin(line: str, sizes: Mapping[str, int]) -> Pin:
    pin = _PIN.fullmatch(line.strip())
    if pin is None:
        raise ValueError(f"{line!r} is not one exact version with its sha256")
    name = canonicalize_name(pin[1])
    return Pin(name=name, version=pin[2], sha256=frozenset(_SHA256.findall(pin[3])), size=sizes.get(name, 0))


@cache
def wheel_tags(python_version: str) -> frozenset[Tag]:
    """Return the tags that CPython `python_version` ("3.13") on x86_64 Linux installs."""
    major, minor = (int(part) for part in python_version.split("."))
    interpreter = f"cp{major}{minor}"
    return frozenset(
        (
            *cpython_tags(python_version=(major, minor), abis=[interpreter], platforms=PLATFORMS),
            *compatible_tags(python_version=(major, minor), interpreter=interpreter, platforms=PLATFORMS),
        )
    )


def fits(filename: str, pin: Pin, python_version: str) -> bool:
    """Tell by a file's name alone whether it may be `pin`'s wheel for `python_version`."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return False
    same = name == pin.name and version == Version(pin.version)
    return same and not tags.isdisjoint(wheel_tags(python_version))
