"""Read hash-pinned requirement locks and tell which wheel files fit them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
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
# Written by images/lock.sh.
_SIZE = re.compile(r"# (\S+): (\d+) bytes$")


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
        ImageError: the file is missing, or a line has no version or no sha256.
    """
    hint = "Restore the file from the repository, or make it again with `make lock`."
    try:
        lines = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    except OSError as error:
        raise ImageError(f"The lock {lock} cannot be read: {error.strerror}.", hint=hint) from error
    sizes = {size[1]: int(size[2]) for line in lines if (size := _SIZE.match(line))}
    stripped = (line.split(" #")[0].strip() for line in lines)
    pins = tuple(_pin(line, lock, sizes, hint) for line in stripped if line and not line.startswith("#"))
    if not pins:
        raise ImageError(f"The lock {lock} pins nothing.", hint=hint)
    return pins


def _pin(line: str, lock: Path, sizes: Mapping[str, int], hint: str) -> Pin:
    text, *options = line.split(" --hash=")
    sha256 = frozenset(o.strip().removeprefix("sha256:") for o in options if o.startswith("sha256:"))
    try:
        requirement = Requirement(text.strip())
    except InvalidRequirement as error:
        raise ImageError(f"{lock}: {text.strip()!r} is not a requirement.", hint=hint) from error
    exact = [s.version for s in requirement.specifier if s.operator == "=="]
    if len(exact) != 1 or not sha256 or requirement.marker is not None:
        raise ImageError(
            f"{lock}: {requirement.name} needs one exact version, a sha256 and no marker.", hint=hint
        )
    name = canonicalize_name(requirement.name)
    return Pin(name=name, version=exact[0], sha256=sha256, size=sizes.get(name, 0))


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
