"""Recorded runs: archives in tests/data that hold one run folder each."""

from __future__ import annotations

import tarfile
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
SUFFIX = ".tar.xz"
# Whole runs on one GPU.
NAMES = (
    "h200-launch-bound",
    "h200-compute-bound",
    "h200-input-bound",
    "h200-inference",
    "h200-requests",
)
# The default suite on CPUs and a GPU, with all that breaks a step down; what the run wrote of itself is left out.
SUITE = "h200-default"
# One, two and four GPUs together; stopped by Ctrl-C during its last trial.
SEVERAL = "h200-four-cards"
# An article's workload, as it was published; stopped by Ctrl-C during its trial on the CPU.
PUBLISHED = "h200-cats-dogs"


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a recording and return its run folder, which has the archive's name."""
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into / archive.name.removesuffix(SUFFIX)


def recording(name: str, into: Path) -> Path:
    """Unpack one of NAMES, SUITE, SEVERAL or PUBLISHED, and return its run folder."""
    return unpack(DATA / f"{name}{SUFFIX}", into)
