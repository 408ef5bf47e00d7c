"""Copy a data folder to an in-memory file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from workloads.protocol import MEMORY_ENV, SHARED_MEMORY

_MARGIN = 1.05  # files occupy whole pages


class StorageError(OSError):
    """The in-memory file system has too little space for the data."""


@lru_cache(maxsize=2)
def in_ram(folder: str) -> str:
    """Return an in-memory copy of `folder`, made once per process.

    A container's temporary folder is in memory. The local engine's may be on disk; its trials have
    MEMORY_ENV.
    """
    prefix = os.environ.get(MEMORY_ENV)
    parent = SHARED_MEMORY if prefix else tempfile.gettempdir()
    needed = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    free = shutil.disk_usage(parent).free
    if needed * _MARGIN > free:
        raise StorageError(
            f"storage=ram needs {needed / 2**20:,.0f} MiB in memory, and {parent} has {free / 2**20:,.0f} MiB free. "
            "Use storage=disk, or a container engine."
        )
    copy = tempfile.mkdtemp(prefix=f"{prefix or 'tfbench'}-", dir=parent)
    return shutil.copytree(folder, copy, dirs_exist_ok=True)
