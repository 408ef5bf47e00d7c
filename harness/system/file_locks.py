"""Locks between processes: one measurement at a time on a machine, one process filling a cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BusyError, StoreError
from harness.progress import Progress

# Not in TMPDIR, which differs between users and shells.
LOCK = Path("/tmp/tfbench.lock")  # noqa: S108
# Names another lock where /tmp is not shared, as under systemd's PrivateTmp.
LOCK_ENV = "TFBENCH_LOCK"
# The first user creates the file for all users, whatever the umask.
_FOR_ALL = 0o666


def default_path() -> Path:
    """Return the lock file that all users of this machine share."""
    return Path(os.environ.get(LOCK_ENV) or LOCK)


@contextmanager
def measuring(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the machine's lock; the kernel releases it however this process ends.

    Raises:
        BusyError: another run still holds it after `wait_s`; the message names its process.
        StoreError: the lock file cannot be opened.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - its import takes longer than a quick command

    lock = FileLock(path, mode=_FOR_ALL, fallback_to_soft=False)
    try:
        held = lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise BusyError(
            f"Another run is measuring on this machine ({_holder(path)}).",
            hint="Wait for it to end, or stop it: concurrent runs disturb each other.",
        ) from error
    except OSError as error:
        raise StoreError(
            f"Cannot open the lock file {path}: {error.strerror}.",
            hint=f"Have its owner remove it or open it to all (chmod 666 {path}); or have everybody on this "
            f"machine set {LOCK_ENV} to one file that all may write.",
        ) from error
    with held:
        yield


@contextmanager
def filling(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a cache's lock file, after waiting for another process that fills the cache."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - as above

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=_FOR_ALL)
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        with progress.task("waiting for another tfbench that uses the cache", None):
            held = lock.acquire()
    with held:
        yield


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` if the block ends without an error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as work:
        made = Path(work) / "made"
        made.mkdir()
        # Containers run as another user.
        made.chmod(0o755)
        yield made
        if folder.exists():
            folder.rename(Path(work) / "before")
        made.rename(folder)


def _holder(path: Path) -> str:
    """Return the process that holds a lock, from proc(5)'s list: number, kind, ..., pid, device:inode."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return f"process {fields[4]}"
    return "of an unknown process"
