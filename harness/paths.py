"""The folders tfbench uses on this host; a separate module to keep imports small."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from harness.errors import on_disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The checkout, which contains images/, and the cache folder."""

    checkout: Path
    cache: Path


def paths_here() -> Paths:
    """Return this process's checkout, and $TFBENCH_CACHE or the user's cache folder."""
    cache = os.environ.get("TFBENCH_CACHE") or platformdirs.user_cache_dir("tfbench")
    return Paths(checkout=Path(__file__).resolve().parents[1], cache=Path(cache).resolve())


def nearest_existing(path: Path) -> Path:
    """Return a path, or its nearest parent that exists."""
    # Path.exists raises PermissionError below a folder that this user may not enter.
    return next(each for each in (path, *path.absolute().parents) if os.path.exists(each))  # noqa: PTH110


def require_writable(path: Path) -> Path:
    """Check that a folder, or its nearest parent if it does not exist, is writable; return it.

    Raises:
        StoreError: it is not.
    """
    nearest = nearest_existing(path)
    with on_disk(path):
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as error:
            error.filename = None  # of no use: the folder is named instead
            raise
    return path
