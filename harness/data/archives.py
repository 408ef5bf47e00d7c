"""Fetch the archives of published datasets, once, checked against the published checksums.

Each archive lies in `<cache>/data/archives/` under its own name. Without a network, put it there by hand.
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from harness.errors import DataError
from harness.progress import Progress

_CONNECT_S, _READ_S = 4.0, 20.0
_CHUNK = 1 << 18
# How long a failure to fetch is not tried again, so that a host without network loses no time at each run.
_REMEMBER_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A file as its authors publish it; `checksum` is "algorithm:hex"."""

    file: str
    url: str
    checksum: str


class ArchiveCache:
    """The folder of archives.

    Args:
        folder: where they lie; need not exist.
        progress: gets a bar for each download.
        now: wall clock in seconds.
    """

    def __init__(self, folder: Path, progress: Progress, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._progress = progress
        self._now = now

    def get(self, archive: Archive, *, retry: bool) -> Path:
        """Return the verified file, fetched if it is not here.

        Args:
            archive: which.
            retry: fetch even if it failed a short while ago.

        Raises:
            DataError: it cannot be fetched, or is not what its authors published.
            OSError: the folder cannot be written.
        """
        path = self._folder / archive.file
        if path.exists():
            if _matches(path, archive.checksum):
                return path
            raise DataError(
                f"{path} is not the published file ({archive.checksum.partition(':')[0]} differs).",
                hint="Remove it, so that it is fetched again, or copy it anew.",
            )
        failed = self._folder / f"{archive.file}.failed"
        if not retry and failed.exists() and self._now() - failed.stat().st_mtime < _REMEMBER_S:
            raise _unreachable(archive, path, failed.read_text(encoding="utf-8").strip())
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._fetch(archive, path)
        except requests.RequestException as error:
            reason = type(error).__name__
            if error.response is not None:
                reason = f"HTTP status {error.response.status_code}"
            failed.write_text(reason + "\n", encoding="utf-8")
            raise _unreachable(archive, path, reason) from error
        failed.unlink(missing_ok=True)
        return path

    def _fetch(self, archive: Archive, path: Path) -> None:
        partial = path.with_name(path.name + ".partial")
        algorithm, _, expected = archive.checksum.partition(":")
        digest = hashlib.new(algorithm, usedforsecurity=False)
        try:
            with requests.get(archive.url, stream=True, timeout=(_CONNECT_S, _READ_S)) as response:
                response.raise_for_status()
                length = response.headers.get("Content-Length")
                with (
                    partial.open("wb") as file,
                    self._progress.task(archive.file, float(length) if length else None, "B") as bar,
                ):
                    for chunk in response.iter_content(_CHUNK):
                        file.write(chunk)
                        digest.update(chunk)
                        bar.advance(len(chunk))
            if digest.hexdigest() != expected:
                raise DataError(
                    f"{archive.url} gave something else than the published file ({algorithm} differs).",
                    hint=f"A proxy may have answered instead. Get the file another way and put it at {path}.",
                )
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _matches(path: Path, checksum: str) -> bool:
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return digest.hexdigest() == expected


def _unreachable(archive: Archive, path: Path, reason: str) -> DataError:
    return DataError(
        f"{archive.file} could not be fetched ({reason}).",
        hint="Check the network and proxy and use --data real to try at once, "
        f"or put {archive.url} at {path}.",
    )


def broken_archive(path: Path, error: Exception) -> DataError:
    """Return what to tell the user about an archive that is not in the format that it should have."""
    return DataError(f"{path} cannot be read: {error}.", hint="Remove it, so that it is fetched again.")


def disk_error(folder: Path, error: OSError) -> DataError:
    """Return what to tell the user about a cache that cannot be written."""
    if error.errno == errno.ENOSPC:
        return DataError(
            f"The disk filled up while data was written to {folder}.",
            hint="Free some space (a dataset takes up to 1.2 GB) or set TFBENCH_CACHE to a roomier folder.",
        )
    return DataError(
        f"{folder} cannot be used: {error.strerror}.", hint="Set TFBENCH_CACHE to a folder of yours."
    )
