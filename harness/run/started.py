"""Which runs and fleets this user started on this machine; a folder from somebody else can say anything of itself."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from harness.model.run import Manifest
from harness.paths import Paths
from harness.run.store import as_json, write_atomic

# Marks that are kept, the newest; of what is older, its user is asked.
_MOST = 1000


def identity(manifest: Manifest) -> bytes:
    """Return what a run must have in common with one that was started here: its id, its options and its engine."""
    return as_json({
        "run_id": manifest.run_id, "options": manifest.options, "isolated": manifest.engine.isolated,
    })  # fmt: skip


def remember(content: bytes, paths: Paths) -> None:
    """Remember that this user started the run or fleet with this identity."""
    mark = write_atomic(_mark(content, paths), "")
    with suppress(OSError):  # others may clear them at the same time
        marks = sorted(mark.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        for old in marks[_MOST:]:
            old.unlink()


def is_own(content: bytes, paths: Paths) -> bool:
    """Return whether this user started the run or fleet with this identity on this machine."""
    return _mark(content, paths).exists()


def _mark(content: bytes, paths: Paths) -> Path:
    return paths.cache / "started" / hashlib.sha256(content).hexdigest()
