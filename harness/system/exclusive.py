"""One measurement at a time on a machine: two would each measure the other."""

from __future__ import annotations

import fcntl
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import BusyError, StoreError

# Not in TMPDIR, which is a user's or a shell's own: /tmp is there and open to all on every machine.
LOCK = Path("/tmp/tfbench.lock")  # noqa: S108
# Names another lock, for machines on which /tmp is not the same for all, as under systemd's PrivateTmp.
LOCK_ENV = "TFBENCH_LOCK"


def default_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the lock file that all users of this machine share, whatever their TMPDIR."""
    return Path((os.environ if environ is None else environ).get(LOCK_ENV) or LOCK)


@contextmanager
def measuring(run_id: str, path: Path) -> Iterator[None]:
    """Hold the machine's lock; the kernel lets go of it however this process ends.

    Raises:
        BusyError: another run holds it; the message names its process and run.
        StoreError: the lock file cannot be opened, or is not one.
    """
    try:
        descriptor = _open(path)
    except OSError as error:
        raise StoreError(
            f"Cannot open the lock file {path}{_owner(path)}: {error.strerror}.",
            hint=f"Have its owner remove it or open it to all (chmod 666 {path}); or have everybody on this "
            f"machine set {LOCK_ENV} to one file that all may write.",
        ) from error
    try:
        if not _is_plain(descriptor):
            raise StoreError(
                f"{path}{_owner(path)} is not a lock file of tfbench's: not a plain file of one name.",
                hint=f"Remove it, or set {LOCK_ENV} to another file.",
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "unknown"
            raise BusyError(
                f"Another run is measuring on this machine ({holder}).",
                hint="Wait for it to end, or stop it; two at once would measure each other.",
            ) from error
        with _signed(descriptor, f"process {os.getpid()}, run {run_id}\n"):
            yield
    finally:
        os.close(descriptor)


@contextmanager
def _signed(descriptor: int, text: str) -> Iterator[None]:
    """Have the lock file say who holds it; one that is open for reading alone is held without a name."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    try:
        yield
    finally:
        # A later holder may not be able to write, and must not be taken for this one.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)


def _open(path: Path) -> int:
    """Open the lock file for every user's use: it is writable by all, whatever the umask of who made it.

    O_CREAT and an existing file of another user do not go together in a sticky folder such as /tmp
    (fs.protected_regular), so that an existing file is opened without it. One that only its owner may write,
    as it is for an instant while it is made, is opened for reading, which a lock does not need more than.
    """
    safely = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | safely, 0o666)
    except FileExistsError:
        try:
            return os.open(path, os.O_RDWR | safely)
        except PermissionError:
            return os.open(path, os.O_RDONLY | safely)
    os.fchmod(descriptor, 0o666)
    return descriptor


def _is_plain(descriptor: int) -> bool:
    """Tell a lock file from what somebody may have planted: a pipe, or another name of a file of ours."""
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _owner(path: Path) -> str:
    """Say whose a file is; "" where there is none, or the user has no name."""
    try:
        return f" of user {pwd.getpwuid(path.lstat().st_uid).pw_name}"
    except (OSError, KeyError):
        return ""
