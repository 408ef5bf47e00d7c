"""Parse lock files (requirements pinned by hash) and match wheels with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

# Up to the newest tag of TensorFlow's wheels; newest first, like pip's ranking.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)
_PIN = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:\w+)+)", re.MULTILINE)
_SHA256 = re.compile(r"sha256:(\w+)")
# Written by images/lock.sh.
_SIZE = re.compile(r"^# (\S+): (\d+) bytes$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pinned requirement: version, SHA-256 of each allowed file, and size of the wheel in bytes."""

    name: str
    version: str
    sha256: frozenset[str]
    size: int = 0

    @property
    def text(self) -> str:
        """The pin in the format of pip's requirements files."""
        return f"{self.name}=={self.version} " + " ".join(f"--hash=sha256:{h}" for h in sorted(self.sha256))


def read_lock(text: str) -> tuple[Pin, ...]:
    """Parse a lock written by images/lock.sh."""
    sizes = dict(_SIZE.findall(text))
    return tuple(
        Pin(
            name=name,
            version=version,
            sha256=frozenset(_SHA256.findall(hashes)),
            size=int(sizes.get(name, 0)),
        )
        for name, version, hashes in _PIN.findall(text)
    )


@cache
def wheel_tags(python_version: str) -> frozenset[Tag]:
    """Return the wheel tags compatible with CPython `python_version` ("3.13") on x86_64 Linux."""
    major, minor = (int(part) for part in python_version.split("."))
    interpreter = f"cp{major}{minor}"
    return frozenset(
        (
            *cpython_tags(python_version=(major, minor), abis=[interpreter], platforms=PLATFORMS),
            *compatible_tags(python_version=(major, minor), interpreter=interpreter, platforms=PLATFORMS),
        )
    )


def is_wheel_of(filename: str, pin: Pin, python_version: str) -> bool:
    """Return whether a file name is that of a wheel of `pin` for `python_version`."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return False
    matches = name == pin.name and version == Version(pin.version)
    return matches and not tags.isdisjoint(wheel_tags(python_version))
