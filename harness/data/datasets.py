"""Prepare each workload's data as a folder of files: the real dataset, or a procedural one.

The folder is `<cache>/data/<key>/`. The key is a hash of everything that determines the content.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import requests

from harness.data.generated import (
    ArrayRecipe,
    ClicksRecipe,
    JpegRecipe,
    PictureRecipe,
    TableRecipe,
    TokenRecipe,
)
from harness.data.published_datasets import PUBLISHED, PublishedDataset
from harness.errors import DataError
from harness.model.run import DataInfo
from harness.model.workload import Data
from harness.progress import Progress, Task
from harness.system.shared_files import filling, keep, working_folder

MODES = ("auto", "real", "procedural")
_TIMEOUT_S = (4.0, 20.0)
_VERIFIED = "published files, checksums verified"


def ensure_data(
    data: Data,
    cache: Path,
    mode: str,
    seed: int,
    progress: Progress,
    real: Mapping[str, PublishedDataset] = PUBLISHED,
) -> tuple[Path, DataInfo]:
    """Return the folder with the workload's data files, and a description of the data.

    Arrays are x_train.npy, y_train.npy, x_test.npy and y_test.npy. Labels are uint8[n], or int32[n] above 256
    classes. JPEG files are <part>/<class>/<name>.jpg, clicks <part>-<number>.tfrecord.

    Args:
        data: the declaration; if it asks for fewer samples than published, the first ones are used.
        mode: "real", "procedural", or "auto" for the real dataset if it is available.

    Raises:
        UsageError: the declaration does not match the dataset it names.
        DataError: the real dataset is required but not available.
        StoreError: the cache cannot be written.
    """
    folder = cache / "data"
    published = real.get(data.name)
    if published is None and mode == "real":
        raise DataError(
            f"The dataset {data.name!r} exists only as procedural data.",
            hint=f"Use --data auto. Published datasets: {', '.join(real)}.",
        )
    info = DataInfo(workload="", name=data.name, kind="", sha256="", why="")
    with filling(folder / ".lock", progress):
        why = "requested" if mode == "procedural" else "only its shape is known"
        if published is not None and mode != "procedural":
            try:
                return _real(published, data, folder, replace(info, kind="real", why=_VERIFIED), progress)
            except DataError as error:
                if mode == "real":
                    raise
                progress.line(f"Using procedural data instead of {data.name}: {error}")
                why = error.message
        return _procedural(data, seed, folder, replace(info, kind="procedural", why=why), progress)


def _real(
    published: PublishedDataset, data: Data, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def unpack(target: Path) -> str:
        paths = [fetch(*file, folder / "archives", progress) for file in published.checksums.items()]
        with progress.task(f"reading {data.name}", None):
            return published.unpack(paths, data, target)

    key: list[object] = [*published.checksums.values(), repr(data)]
    return _cached(folder, key, unpack, info, progress)


def _procedural(
    data: Data, seed: int, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def generate(target: Path) -> str:
        with progress.task(f"generating {data.name} data", data.train + data.test) as bar:
            recipe(data, seed).write(target, bar)
        return ""

    recipe = _recipe(data)
    return _cached(folder, [recipe.__name__, recipe.version, repr(data), seed], generate, info, progress)


def _recipe(data: Data) -> type[JpegRecipe | ClicksRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "clicks":
        return ClicksRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _cached(
    folder: Path, key: list[object], fill: Callable[[Path], str], info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    """Return the folder for `key`, filled by `fill` if necessary, and `info` with its hash, size and remark."""
    path = folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    content = keep(path, fill, progress)
    why = ", ".join(filter(None, (info.why, content.remark)))
    return path, replace(info, why=why, sha256=content.sha256, size_bytes=content.size_bytes)


def fetch(url: str, checksum: str, folder: Path, progress: Progress) -> Path:
    """Return the path of an archive in `folder`, downloaded if necessary; `checksum` is "algorithm:hex".

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
        other = f" The one in {folder} has another checksum." if path.is_file() else ""
        raise DataError(
            f"Could not download {name} ({reason}).{other}",
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
