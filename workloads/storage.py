"""Put a data folder into memory: a copy in a file system that has no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    needed = sum(path.stat().st_size for path in files) * _MARGIN
    place = place_for(
        needed, (tempfile.gettempdir(), SHARED_MEMORY), MOUNTS.read_text(encoding="utf-8"), _free
    )
    copy = Path(tempfile.mkdtemp(prefix=f"{os.environ.get(MEMORY_ENV, 'tfbench')}-", dir=place))
    for parent in {path.parent for path in files}:
        (copy / parent.relative_to(folder)).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: shutil.copyfile(path, copy / path.relative_to(folder)), files))
    return str(copy)


def place_for(needed: float, places: tuple[str, ...], mounts: str, free: Callable[[str], int]) -> str:
    """Return the first of `places` that lies in memory and has `needed` bytes free.

    Args:
        mounts: the text of /proc/mounts.
        free: path -> bytes that are free there.

    Raises:
        StorageError: none has; the message says what each has.
    """
    kinds = {fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    found = []
    for place in places:
        at = Path(place)
        mount = next((str(one) for one in (at, *at.parents) if str(one) in kinds), "")
        if kinds.get(mount) not in IN_MEMORY:
            found.append(f"{place} is on a disk")
        elif (there := free(place)) < needed:
            found.append(f"{place} has {there / 2**20:,.0f} MiB free")
        else:
            return place
    raise StorageError(
        f"storage=ram needs {needed / 2**20:,.0f} MiB in memory: {', '.join(found)}. "
        "Use storage=disk, or a container engine."
    )


def _free(place: str) -> int:
    state = os.statvfs(place)
    return state.f_bavail * state.f_frsize
