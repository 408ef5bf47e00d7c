"""Put a data folder into memory: a copy in a file system that has no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from workloads.protocol import MEMORY_ENV, SHARED_MEMORY

_MARGIN = 1.05  # files take whole pages


class StorageError(OSError):
    """The file system in memory has no room for the data."""


@lru_cache(maxsize=2)
def in_ram(folder: str) -> str:
    """Return a copy of `folder` in memory, made once in a process.

    A container's temporary folder is in memory; the local engine's, whose trials have MEMORY_ENV, may be on a disk.
    """
    prefix = os.environ.get(MEMORY_ENV)
    place = SHARED_MEMORY if prefix else tempfile.gettempdir()
    needed = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    free = shutil.disk_usage(place).free
    if needed * _MARGIN > free:
        raise StorageError(
            f"storage=ram needs {needed / 2**20:,.0f} MiB in memory, and {place} has {free / 2**20:,.0f} MiB free. "
            "Use storage=disk, or a container engine."
        )
    copy = tempfile.mkdtemp(prefix=f"{prefix or 'tfbench'}-", dir=place)
    return shutil.copytree(folder, copy, dirs_exist_ok=True)
