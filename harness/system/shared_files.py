"""Files that processes share: folders that the cache keeps, and locks.

Folders are written completely or not at all, and proved before each use. The record of a folder has the size, change
time and SHA-256 of each of its files. A file is hashed again if its size or time differs, and once in each boot,
because a power failure or a failing disk changes neither. One process fills a cache, and one run measures on a machine
at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.engines.owner import boot_id
from harness.errors import BusyError, StoreError, on_disk
from harness.progress import Progress
from harness.untrusted import read_file, remove_tree

_RECORD, _PARTIAL = ".content", ".partial-"
# A record of 25,000 pictures takes 3 MB.
_MAX_RECORD = 256 << 20
# Not in TMPDIR, which differs between users and shells.
LOCK = Path("/tmp/tfbench.lock")  # noqa: S108
# Overrides the path if /tmp is not shared, e.g. with systemd's PrivateTmp.
LOCK_ENV = "TFBENCH_LOCK"
# The first user creates the file for all users, regardless of the umask.
_LOCK_MODE = 0o666


def read_once(folders: Iterable[Path], limit_bytes: int) -> None:
    """Read all files, at most so many bytes, so that the first trial finds them in memory as later ones do."""
    buffer = bytearray(1 << 20)
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        with (
            suppress(OSError),
            path.open("rb", buffering=0) as file,
        ):  # who needs a file says what is wrong with it
            while limit_bytes > 0 and (count := file.readinto(buffer)):
                limit_bytes -= count


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a folder.

    Attributes:
        boot: id of the boot in which all files were hashed.
        remark: of the function that wrote them.
        files: path in the folder -> size, ctime in ns, which programs cannot set, and SHA-256; in order.
    """

    boot: str
    remark: str
    files: Mapping[str, tuple[int, int, str]]

    @property
    def sha256(self) -> str:
        """Hash of the names and hashes of all files."""
        lines = (f"{name} {sha256}\n" for name, (_, _, sha256) in self.files.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Total size of the files."""
        return sum(size for size, _, _ in self.files.values())


def keep(folder: Path, fill: Callable[[Path], str], progress: Progress) -> Content:
    """Return the content of a folder in the cache; make the folder if it is missing or damaged.

    Args:
        fill: writes the files into an empty folder and returns a remark or "".

    Raises:
        OSError: it cannot be written.
    """
    if os.path.lexists(folder):
        try:
            return _proved(folder)
        except (OSError, StoreError, ValueError, RecursionError) as error:
            reason = getattr(error, "message", error)
            progress.line(f"{folder} is damaged and is made again: {str(reason).rstrip('.')}.")
    with replacing(folder) as target:
        remark = fill(target)
        for path in target.rglob("*"):
            # Containers run as a different user, whatever the umask.
            path.chmod(0o755 if path.is_dir() else 0o644)
        content = Content(boot=boot_id(), remark=remark, files=_hashed(target, _states(target)))
        _write_record(target, content)
    return content


def _proved(folder: Path) -> Content:
    """Return the content of a folder; raise an error if it differs from the folder's record."""
    content = msgspec.json.decode(read_file(folder / _RECORD, max_bytes=_MAX_RECORD), type=Content)
    states = _states(folder)
    if {name: size for name, (size, _) in states.items()} != {
        name: file[0] for name, file in content.files.items()
    }:
        raise ValueError("files are missing, were added or have another size")
    same_boot = content.boot == boot_id()
    suspect = {name: at for name, at in states.items() if not (same_boot and at == content.files[name][:2])}
    if not suspect:
        return content
    hashed = _hashed(folder, suspect)
    if changed := [name for name, file in hashed.items() if file[2] != content.files[name][2]]:
        raise ValueError(f"{changed[0]} has changed")
    content = Content(boot=boot_id(), remark=content.remark, files={**content.files, **hashed})
    with suppress(OSError):  # it is proved again the next time
        _write_record(folder, content)
    return content


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and change time of each file by its path in the folder, in a deterministic order."""
    files = (path for path in sorted(folder.rglob("*")) if not path.is_dir() and path.name != _RECORD)
    states = {path.relative_to(folder).as_posix(): path.lstat() for path in files}
    if strange := [name for name, state in states.items() if not stat.S_ISREG(state.st_mode)]:
        raise ValueError(f"{strange[0]} is not a file")
    return {name: (state.st_size, state.st_ctime_ns) for name, state in states.items()}


def _hashed(folder: Path, states: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int, str]]:
    with ThreadPoolExecutor() as pool:
        hashes = pool.map(lambda name: file_sha256(folder / name), states)
        return {name: (*state, sha256) for (name, state), sha256 in zip(states.items(), hashes, strict=True)}


def _write_record(folder: Path, content: Content) -> None:
    partial = folder.with_name(f"{_PARTIAL}{folder.name}{_RECORD}")
    with partial.open("wb") as file:
        file.write(msgspec.json.encode(content))
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(0o644)
    partial.replace(folder / _RECORD)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` if the block succeeds."""
    with working_folder(folder.parent) as work:
        new = work / "new"
        new.mkdir()
        # Containers run as a different user.
        new.chmod(0o755)
        yield new
        # One call, because a dataset may have 25,000 files.
        os.sync()
        if os.path.lexists(folder):
            folder.rename(work / "old")
        new.rename(folder)


@contextmanager
def working_folder(parent: Path) -> Iterator[Path]:
    """Yield a folder that is removed afterwards, or by `remove_abandoned` if this process is killed."""
    parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Named last: what has this prefix and no lock is abandoned.
        work = made.rename(parent / f"{_PARTIAL}{made.name}")
        try:
            yield work
        finally:
            remove_tree(work)
    finally:
        os.close(handle)


def remove_abandoned(cache: Path) -> None:
    """Remove what killed processes left below the cache: working folders that nobody has locked."""
    for path in cache.glob(f"*/{_PARTIAL}*"):
        with suppress(OSError):
            if not path.is_dir():
                path.unlink()
                continue
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
            finally:
                os.close(handle)


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
    except OSError as error:
        if isinstance(error, Timeout) and path.exists():
            raise BusyError(
                f"Another run is measuring on this machine ({_holder(path)}).",
                hint="Wait for it to finish, or stop it: concurrent runs distort each other's results.",
            ) from error
        remedy = f"Ask its owner to remove it or make it writable (chmod 666 {path}), or have"
        if path.is_dir() or path.is_symlink() or not path.exists():  # a link is not followed
            remedy = "Have"
        raise StoreError(
            f"Cannot open the lock file {path}: {error.strerror or 'its folder takes no files'}.",
            hint=f"{remedy} all users of this machine set {LOCK_ENV} to the same writable file.",
        ) from error
    with held:
        yield


@contextmanager
def filling(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a cache's lock file, after waiting for other processes that fill the cache.

    Raises:
        StoreError: the cache cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - as above

    with on_disk(path.parent):
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
