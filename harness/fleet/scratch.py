"""Folders of a node's cache that the fleet works in: made, let go, and swept where a worker was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The user's own files lie here by content: a run that goes on finds them again.
KEPT = "fleet-files"
# No run takes as long, and a run that was left for so long can be sent its files again.
SWEPT_AFTER_S = 30 * 24 * 3600


def make(cache: Path) -> Path:
    """Make a folder that a container's user can reach, and sweep what others left behind.

    Raises:
        OSError: the cache cannot be written.
    """
    cache.mkdir(parents=True, exist_ok=True)
    sweep(cache)
    path = Path(tempfile.mkdtemp(prefix="fleet-", dir=cache))
    path.chmod(0o755)
    return path


def drop(path: Path) -> None:
    """Remove a folder that `make` made."""
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def held(cache: Path) -> Iterator[Path]:
    """Make a folder for the time of the block."""
    path = make(cache)
    try:
        yield path
    finally:
        drop(path)


def kept(cache: Path, content: str) -> Path:
    """Return the folder for files of this content, and note that it was wanted now."""
    path = cache / KEPT / content
    path.mkdir(parents=True, exist_ok=True)
    os.utime(path)
    return path


def sweep(cache: Path, *, now_s: float | None = None) -> None:
    """Remove what nobody has touched for SWEPT_AFTER_S: a killed worker's folder, files of an old run.

    Args:
        now_s: seconds since the epoch; None for now.
    """
    oldest = (time.time() if now_s is None else now_s) - SWEPT_AFTER_S
    folders = [path for path in cache.glob("fleet-*") if path.name != KEPT]
    for path in (*folders, *(cache / KEPT).glob("*")):
        try:
            if path.stat().st_mtime < oldest:
                drop(path)
        except FileNotFoundError:
            continue  # another worker of this machine swept it
