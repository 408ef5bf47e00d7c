"""Which runs and fleets this user started on this machine; a folder from somebody else can say anything of itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.model.run import Manifest
from harness.paths import Paths
from harness.run.store import as_json, write_atomic


def identity(manifest: Manifest) -> bytes:
    """Return what a run must have in common with one that was started here: its id and its options."""
    return as_json({"run_id": manifest.run_id, "options": manifest.options})


def remember(content: bytes, paths: Paths) -> None:
    """Remember that this user started the run or fleet with this identity."""
    write_atomic(_mark(content, paths), "")


def is_own(content: bytes, paths: Paths) -> bool:
    """Return whether this user started the run or fleet with this identity on this machine."""
    return _mark(content, paths).exists()


def _mark(content: bytes, paths: Paths) -> Path:
    return paths.cache / "started" / hashlib.sha256(content).hexdigest()
