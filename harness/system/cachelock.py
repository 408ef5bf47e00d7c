"""Take turns at filling the cache: a second process waits instead of doing the same work again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.progress import Progress


@contextmanager
def filling(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock file `path`; the kernel lets go of it however this process ends.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.task("waiting for another tfbench that fills the cache", None):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
