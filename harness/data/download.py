"""Fetch archives of published datasets into `<cache>/data/archives/`, or take those that a user has put there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import requests

from harness.errors import DataError
from harness.progress import Progress, Task

_TIMEOUT_S = (4.0, 20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A published file; `checksum` is "algorithm:hex"."""

    url: str
    checksum: str

    @property
    def file(self) -> str:
        """The last part of its address."""
        return PurePosixPath(self.url).name


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Return the file in `folder`, fetched if necessary.

    Raises:
        DataError: it cannot be fetched, or has another checksum.
        OSError: the folder cannot be written.
    """
    import pooch  # noqa: PLC0415 - imports slowly, and most runs have their data

    path = folder / archive.file
    if path.exists() and pooch.hashes.hash_matches(path, archive.checksum):
        return path
    pooch.get_logger().setLevel(logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with progress.task(archive.file, None) as task:
            download = pooch.HTTPDownloader(progressbar=_Bar(task), timeout=_TIMEOUT_S)
            pooch.retrieve(archive.url, archive.checksum, archive.file, folder, downloader=download)
    except requests.RequestException as error:
        reason = f"HTTP status {error.response.status_code}" if error.response else type(error).__name__
        raise DataError(
            f"{archive.file} could not be fetched ({reason}).",
            hint=f"Check the network and proxy, or put {archive.url} at {path}.",
        ) from error
    except ValueError as error:
        raise DataError(
            f"{archive.url} is not the published file: its checksum differs.",
            hint=f"A proxy may have replaced it. Download it another way and put it at {path}.",
        ) from error
    return path


class _Bar:
    """pooch's interface of a progress bar."""

    def __init__(self, task: Task) -> None:
        self.total = 0
        self._done = 0
        self._task = task

    def update(self, amount: int) -> None:
        self._done += amount
        self._task.advance(float(amount))

    def reset(self) -> None:
        self.update(-self._done)

    def close(self) -> None:
        pass
