"""Fetch every wheel of a lock on the host, once, checked against the lock's hashes.

The host's own pip does the fetching, so that the user's configuration of it (index, proxy,
certificates) holds. What it brings goes into `<cache>/wheels/<sha256>-<size>/<file>`: the hash is
computed when a wheel enters, and the size in the name tells a torn copy from a whole one for free.

Without a network: put the wheels (or a copy of another machine's whole `wheels` folder) anywhere under
`<cache>/wheels/`. Whatever the lock asks for is found there by name, checked, and linked to its place.
The cache is `$TFBENCH_CACHE`, by default the user's cache folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import ImageError
from harness.images.locks import Pin, file_sha256, fits, read_lock
from harness.images.pip import DISK_HINT, download
from harness.progress import Progress, Task

_PARALLEL = 4
_POLL_S = 0.2


def fetch_wheels(lock: Path, cache: Path, python_version: str, progress: Progress) -> Path:
    """Make sure that the cache holds every wheel of `lock`, and return the cache's wheel folder.

    Args:
        lock: requirements with exact versions and sha256 hashes.
        cache: root of the cache; wheels live in its folder `wheels`.
        python_version: CPython to fetch for, e.g. "3.13"; the platform is always x86_64 Linux.
        progress: gets one bar over the wheels of the lock; nothing when all are there.

    Raises:
        ImageError: a hash is wrong, an index does not answer, the disk is full.
    """
    WheelCache(cache, python_version, progress).fetch(read_lock(lock))
    return cache / "wheels"


def cached_wheels(lock: Path, cache: Path, python_version: str) -> dict[Pin, Path]:
    """Return the wheels of `lock` that the cache already holds, without looking inside them."""
    store = _scan(cache / "wheels")
    found = ((pin, _choose(pin, store, python_version)) for pin in read_lock(lock))
    return {pin: path for pin, path in found if path is not None}


class WheelCache:
    """The shared folder of verified wheels, for one Python version.

    Args:
        cache: root of the cache.
        python_version: e.g. "3.13".
        progress: where bars and remarks go.
    """

    def __init__(self, cache: Path, python_version: str, progress: Progress) -> None:
        self._folder = cache / "wheels"
        self._python_version = python_version
        self._progress = progress
        self._cancelled = threading.Event()

    def fetch(self, pins: tuple[Pin, ...]) -> None:
        """Bring in what is missing of `pins`.

        Raises:
            ImageError: see fetch_wheels.
        """
        try:
            missing = self._missing(pins)
            if not missing:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._progress.task(f"wheels for Python {self._python_version}", len(pins), "wheels") as bar:
                bar.advance(len(pins) - len(missing))
                self._adopt_loose(missing, bar)
                self._download(self._missing(missing), bar)
        except OSError as error:
            raise ImageError(
                f"The wheel cache {self._folder} cannot be written: {error.strerror}.",
                hint=DISK_HINT,
            ) from error

    def _missing(self, pins: tuple[Pin, ...]) -> tuple[Pin, ...]:
        store = _scan(self._folder)
        return tuple(pin for pin in pins if _choose(pin, store, self._python_version) is None)

    def _adopt_loose(self, missing: tuple[Pin, ...], bar: Task) -> None:
        """Check wheels that somebody put under the folder by hand, and link them to their places."""
        adopted: set[Pin] = set()
        for path in sorted(self._folder.rglob("*.whl")):
            parts = path.relative_to(self._folder).parts
            if any(part.startswith(".partial-") for part in parts[:-1]):
                continue
            pin = next((p for p in missing if fits(path.name, p, self._python_version)), None)
            if pin is None or pin in adopted:
                continue
            bar.note(f"checking {path.name}", minor=True)
            if (digest := file_sha256(path)) in pin.sha256:
                self._enter(path, digest)
                adopted.add(pin)
                bar.advance(1)
            else:
                self._progress.line(
                    f"{path} is not the file that the lock pins (sha256 {digest[:12]}...): left aside."
                )

    def _enter(self, wheel: Path, sha256: str) -> None:
        place = self._folder / f"{sha256}-{wheel.stat().st_size}"
        place.mkdir(exist_ok=True)
        target = place / wheel.name
        if target.exists() and target.stat().st_size == wheel.stat().st_size:
            return
        link_or_copy(wheel, target)

    def _download(self, missing: tuple[Pin, ...], bar: Task) -> None:
        if not missing:
            return
        with _scratch(self._folder) as scratch, ThreadPoolExecutor(_PARALLEL) as pool:
            futures = {pool.submit(self._download_one, pin, scratch): pin for pin in missing}
            try:
                self._watch(futures, scratch, bar)
            finally:
                # On the first failure, or Ctrl-C, nobody waits for the other downloads.
                self._cancelled.set()
                for future in futures:
                    future.cancel()

    def _watch(self, futures: dict[Future[None], Pin], scratch: Path, bar: Task) -> None:
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                bar.advance(1)
            names = sorted(futures[f].name for f in pending if f.running())
            bar.note(f"{_size(scratch) / 1e6:,.0f} MB of {', '.join(names)}" if names else "", minor=True)

    def _download_one(self, pin: Pin, scratch: Path) -> None:
        if self._cancelled.is_set():
            return
        out = scratch / pin.name
        out.mkdir()
        download(pin, self._python_version, out, self._cancelled)
        for wheel in out.glob("*.whl"):
            self._enter(wheel, file_sha256(wheel))
        shutil.rmtree(out, ignore_errors=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Put `source`'s content at `target`, whole or not at all: a hard link, or a copy if that cannot be."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    # Replacing one hard link by another to the same file is a no-op that leaves both names.
    temporary.replace(target)
    temporary.unlink(missing_ok=True)


def _scan(folder: Path) -> dict[str, Path]:
    """Return the store's whole wheels by sha256."""
    store: dict[str, Path] = {}
    with suppress(FileNotFoundError):
        for place in os.scandir(folder):
            sha256, _, size = place.name.partition("-")
            if len(sha256) == 64 and size.isdecimal() and place.is_dir():
                for wheel in os.scandir(place.path):
                    if wheel.name.endswith(".whl") and wheel.stat().st_size == int(size):
                        store[sha256] = Path(wheel.path)
    return store


def _choose(pin: Pin, store: dict[str, Path], python_version: str) -> Path | None:
    wheels = (store[sha256] for sha256 in sorted(pin.sha256) if sha256 in store)
    return next((wheel for wheel in wheels if fits(wheel.name, pin, python_version)), None)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Give a folder on the cache's file system, and sweep up those that killed processes left."""
    for old in folder.glob(".partial-*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > 86400:
                shutil.rmtree(old, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _size(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total
