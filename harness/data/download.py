"""Download archives of published datasets to `<cache>/data/archives/`, or use those already there."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath

import requests

from harness.errors import DataError
from harness.progress import Progress, Task
from harness.system.kept import working_folder

_TIMEOUT_S = (4.0, 20.0)


def fetch(url: str, checksum: str, folder: Path, progress: Progress) -> Path:
    """Return the file's path in `folder`, downloaded if necessary; `checksum` is "algorithm:hex".

    Raises:
        DataError: the download fails, or the checksum differs.
        OSError: the folder cannot be written.
    """
    import pooch  # noqa: PLC0415 - slow to import, and most runs already have their data

    name = PurePosixPath(url).name
    path = folder / name
    pooch.get_logger().setLevel(logging.ERROR)
    algorithm, _, expected = checksum.partition(":")
    if path.is_file() and pooch.file_hash(path, algorithm) == expected:
        return path
    try:
        with working_folder(folder) as work, progress.task(name, None) as task:
            download = pooch.HTTPDownloader(progressbar=_Bar(task), timeout=_TIMEOUT_S)
            pooch.retrieve(url, checksum, name, work, downloader=download)
            return (work / name).replace(path)
    except requests.RequestException as error:
        response = error.response
        reason = type(error).__name__ if response is None else f"HTTP status {response.status_code}"
        raise DataError(
            f"Could not download {name} ({reason}).",
            hint=f"Check the network and proxy, or save {url} as {path}.",
        ) from error
    except ValueError as error:
        raise DataError(
            f"The checksum of {url} differs from the published one.",
            hint=f"A proxy may have replaced the file. Download it another way and save it as {path}.",
        ) from error


class _Bar:
    """Adapter to pooch's progress bar interface, for a task without a total."""

    total = 0

    def __init__(self, task: Task) -> None:
        self.update = task.advance

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
