"""Locks between processes: one measurement per machine at a time, one process filling a cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BusyError, StoreError
from harness.progress import Progress

# Not in TMPDIR, which differs between users and shells.
LOCK = Path("/tmp/tfbench.lock")  # noqa: S108
# Overrides the path if /tmp is not shared, e.g. with systemd's PrivateTmp.
LOCK_ENV = "TFBENCH_LOCK"
# The first user creates the file for all users, regardless of the umask.
_LOCK_MODE = 0o666


def default_path() -> Path:
    """Return the lock file shared by all users of this machine."""
    return Path(os.environ.get(LOCK_ENV) or LOCK)


@contextmanager
def measuring(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the machine's lock; the kernel releases it even if this process is killed.

    Raises:
        BusyError: another run still holds the lock after `wait_s`; the message names its process.
        StoreError: the lock file cannot be opened.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - the import takes longer than a short command

    lock = FileLock(path, mode=_LOCK_MODE, fallback_to_soft=False)
    try:
        held = lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise BusyError(
            f"Another run is measuring on this machine ({_holder(path)}).",
            hint="Wait for it to finish, or stop it: concurrent runs distort each other's results.",
        ) from error
    except OSError as error:
        remedy = f"Ask its owner to remove it or make it writable (chmod 666 {path}), or have"
        raise StoreError(
            f"Cannot open the lock file {path}: {error.strerror}.",
            hint=f"{'Have' if path.is_dir() else remedy} all users of this machine set {LOCK_ENV} to the same "
            "writable file.",
        ) from error
    with held:
        yield


@contextmanager
def filling(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a cache's lock file, after waiting for other processes that fill the cache."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - as above

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=_LOCK_MODE)
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        with progress.task("waiting for another tfbench process to release the cache", None):
            held = lock.acquire()
    with held:
        yield


def _holder(path: Path) -> str:
    """Return the process that holds a lock, from /proc/locks: number, kind, ..., pid, device:inode."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return f"process {fields[4]}"
    return "unknown process"
