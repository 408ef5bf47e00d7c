"""Parse lock files: requirements pinned by hash."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
