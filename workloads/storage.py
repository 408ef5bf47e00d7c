"""Put a data folder into memory: a copy in a file system that has no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from workloads.protocol import MEMORY_ENV, SHARED_MEMORY

MOUNTS = Path("/proc/mounts")
IN_MEMORY = ("tmpfs", "ramfs")
_MARGIN = 1.05  # files take whole pages


class StorageError(OSError):
    """No file system in memory has room for the data."""


@lru_cache(maxsize=2)
def in_ram(folder: str) -> str:
    """Return a copy of `folder` in memory, made once in a process.

    Raises:
        StorageError: there is no room.
    """
    needed = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) * _MARGIN
    mounts = MOUNTS.read_text(encoding="utf-8")
    places = (tempfile.gettempdir(), SHARED_MEMORY)
    place = place_for(needed, places, mounts, lambda place: shutil.disk_usage(place).free)
    copy = tempfile.mkdtemp(prefix=f"{os.environ.get(MEMORY_ENV, 'tfbench')}-", dir=place)
    return shutil.copytree(folder, copy, dirs_exist_ok=True)


def place_for(needed: float, places: Sequence[str], mounts: str, free: Callable[[str], int]) -> str:
    """Return the first of `places` that lies in memory and has `needed` bytes free.

    Args:
        mounts: the text of /proc/mounts.
        free: path -> bytes that are free there.

    Raises:
        StorageError: none has; the message says what each has.
    """
    kinds = {fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    reasons = []
    for place in places:
        folders = (Path(place), *Path(place).parents)
        kind = next((kinds[str(folder)] for folder in folders if str(folder) in kinds), "")
        if kind in IN_MEMORY and free(place) >= needed:
            return place
        in_memory = f"has {free(place) / 2**20:,.0f} MiB free" if kind in IN_MEMORY else "is on a disk"
        reasons.append(f"{place} {in_memory}")
    raise StorageError(
        f"storage=ram needs {needed / 2**20:,.0f} MiB in memory: {', '.join(reasons)}. "
        "Use storage=disk, or a container engine."
    )
