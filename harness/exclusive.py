"""One measurement at a time on a machine: two would each measure the other."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BusyError, StoreError


def default_path() -> Path:
    """Return the lock file that all users of this machine share."""
    return Path(tempfile.gettempdir()) / "tfbench.lock"


@contextmanager
def measuring(run_id: str, path: Path) -> Iterator[None]:
    """Hold the machine's lock; the kernel lets go of it however this process ends.

    Raises:
        BusyError: another run holds it; the message names its process and run.
        StoreError: the lock file cannot be opened.
    """
    try:
        descriptor = _open(path)
    except OSError as error:
        raise StoreError(
            f"Cannot open the lock file {path}: {error.strerror}.",
            hint="Remove it, or set TMPDIR to a folder that you can write to.",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "unknown"
            raise BusyError(
                f"Another run is measuring on this machine ({holder}).",
                hint="Wait for it to end, or stop it; two at once would measure each other.",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, run {run_id}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the lock file for every user's use: it is writable by all, whatever the umask of who made it.

    O_CREAT and an existing file of another user do not go together in a sticky folder such as /tmp
    (fs.protected_regular), so that an existing file is opened without it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    os.fchmod(descriptor, 0o666)
    return descriptor
