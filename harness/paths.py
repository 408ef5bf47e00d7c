"""The folders tfbench uses on this host; a module of its own, so that a command imports nothing else for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Folders on this host: the checkout that holds images/, and the cache that outlives runs."""

    checkout: Path
    cache: Path


def paths_here() -> Paths:
    """Return where things lie for this process: its own checkout, and $TFBENCH_CACHE or the user's cache."""
    cache = os.environ.get("TFBENCH_CACHE") or platformdirs.user_cache_dir("tfbench")
    return Paths(checkout=Path(__file__).resolve().parents[1], cache=Path(cache).resolve())
