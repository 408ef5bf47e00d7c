"""How much space a run and the images that it has to build need, and what a disk has."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
RUN_BYTES = GIB // 4  # a run folder of the quick profile
# Of each target: its wheels, in the cache; the image while it is built (the container's copy and the committed one);
# the local engine's environment, in the cache.
SIZES: Mapping[str, tuple[int, int, int]] = {
    "cpu": (GIB, 3 * GIB, 2 * GIB),
    "cuda": (4 * GIB, 13 * GIB, 7 * GIB),
    "trees-cpu": (GIB // 4, 3 * GIB // 4, GIB // 2),
    "trees-cuda": (GIB, 2 * GIB, GIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Where a machine keeps something: folders on the same disk have one `device`."""

    folder: str
    device: int
    free_bytes: int


def disk_of(folder: Path) -> Disk:
    """Return the disk where a folder is, or will be made.

    A folder below one that only root may look into is on that one's disk, as far as can be told.
    """
    for above in (folder, *folder.parents):
        with suppress(OSError):
            return Disk(
                folder=str(folder), device=above.stat().st_dev, free_bytes=shutil.disk_usage(above).free
            )
    raise FileNotFoundError(folder)
