"""The harness' own code on its way to the nodes: they run what the driver runs, or say that they do not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

# What a node needs of a checkout; the rest of it (tests, runs, built contexts) stays where it is.
PARTS = ("harness", "workloads", "images")
_LEFT_OUT = ("__pycache__", "context", "*.pyc")


def stage(checkout: Path, folder: Path) -> Path:
    """Copy what nodes need of `checkout` into `folder`, for Ray to carry there, and return `folder`."""
    for part in PARTS:
        shutil.copytree(checkout / part, folder / part, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    return folder


def digest(checkout: Path) -> str:
    """Return a digest of the code that nodes run: equal for equal files, wherever they lie."""
    total = hashlib.sha256()
    for part in PARTS:
        for path in sorted((checkout / part).rglob("*")):
            inside = path.relative_to(checkout)
            if path.is_file() and not set(inside.parts) & {"__pycache__", "context"}:
                total.update(str(inside).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]
