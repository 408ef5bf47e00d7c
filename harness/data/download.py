"""Fetch archives of published datasets into `<cache>/data/archives/`, where a user may put them too."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath

import requests

from harness.errors import DataError
from harness.progress import Progress, Task

_TIMEOUT_S = (4.0, 20.0)


def fetch(url: str, checksum: str, folder: Path, progress: Progress) -> Path:
    """Return a file in `folder`, fetched if necessary; `checksum` is "algorithm:hex".

    Raises:
        DataError: it cannot be fetched, or has another checksum.
        OSError: the folder cannot be written.
    """
    import pooch  # noqa: PLC0415 - imports slowly, and most runs have their data

    name = PurePosixPath(url).name
    path = folder / name
    pooch.get_logger().setLevel(logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with progress.task(name, None) as task:
            download = pooch.HTTPDownloader(progressbar=_Bar(task), timeout=_TIMEOUT_S)
            pooch.retrieve(url, checksum, name, folder, downloader=download)
    except requests.RequestException as error:
        answer = error.response
        reason = type(error).__name__ if answer is None else f"HTTP status {answer.status_code}"
        raise DataError(
            f"{name} could not be fetched ({reason}).",
            hint=f"Check the network and proxy, or put {url} at {path}.",
        ) from error
    except ValueError as error:
        raise DataError(
            f"{url} is not the published file: its checksum differs.",
            hint=f"A proxy may have replaced it. Download it another way and put it at {path}.",
        ) from error
    return path


class _Bar:
    """pooch's interface of a progress bar, for a task without a total."""

    total = 0

    def __init__(self, task: Task) -> None:
        self.update = task.advance

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
