"""A kernel file that is opened once and read again on every tick."""

from __future__ import annotations

import os
from pathlib import Path

# Larger ones cost more: Python allocates the whole buffer on every read (1 MiB: 14 us, 64 KiB: 3 us).
_CHUNK = 1 << 16


class ProcFile:
    """A file under /proc, /sys or a cgroup; reading it from the start makes the kernel write it anew.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def open(self) -> None:
        """Open it.

        Raises:
            OSError: it is not there or may not be read.
        """
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the whole content.

        Raises:
            OSError: the kernel object is gone.
        """
        if self._descriptor is None:
            raise FileNotFoundError(self._path)
        # The kernel hands some of these files out a page at a time, however large the buffer.
        content = chunk = os.pread(self._descriptor, _CHUNK, 0)
        while chunk:
            chunk = os.pread(self._descriptor, _CHUNK, len(content))
            content += chunk
        return content

    def close(self) -> None:
        """Close it; no error if it is not open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def table(content: bytes) -> dict[bytes, int]:
    """Parse lines of "key value" as cgroups write them; lines of another form are left out."""
    rows = (line.split() for line in content.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].lstrip(b"-").isdigit()}


def pressure(content: bytes) -> dict[str, float]:
    """Parse pressure stall information: "some" and "full" -> cumulative seconds."""
    rows = (line.split() for line in content.splitlines())
    return {row[0].decode(): int(row[-1].removeprefix(b"total=")) / 1e6 for row in rows if row}
