"""Locks between processes: one measurement at a time on a machine, and turns at filling the cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BusyError, StoreError
from harness.progress import Progress

# Not in TMPDIR, which is a user's or a shell's own: every machine has a /tmp that is open to all.
LOCK = Path("/tmp/tfbench.lock")  # noqa: S108
# Names another lock, for machines on which /tmp is not the same for all, as under systemd's PrivateTmp.
LOCK_ENV = "TFBENCH_LOCK"
# Whoever comes first makes the file for every user, whatever the umask.
_FOR_ALL = 0o666


def default_path() -> Path:
    """Return the lock file that all users of this machine share, whatever their TMPDIR."""
    return Path(os.environ.get(LOCK_ENV) or LOCK)


@contextmanager
def measuring(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the machine's lock; the kernel releases it however this process ends.

    Args:
        wait_s: how long to wait for another run that holds it.

    Raises:
        BusyError: another run holds it; the message names its process.
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
    """Hold the lock file of a cache, after whoever fills it now: the same work is not done twice.

    Raises:
        OSError: the file cannot be made.
    """
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
    """Give an empty folder that takes `folder`'s place once the block has ended without an error.

    Raises:
        OSError: it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as work:
        made = Path(work) / "made"
        made.mkdir()
        # The container's user is another one.
        made.chmod(0o755)
        yield made
        if folder.exists():
            folder.rename(Path(work) / "before")
        made.rename(folder)


def _holder(path: Path) -> str:
    """Name the process that holds a lock, as the kernel lists it: number, kind, ..., pid, device:inode."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return f"process {fields[4]}"
    return "of an unknown process"
