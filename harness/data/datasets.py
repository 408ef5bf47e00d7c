"""Prepare each workload's data as one folder of files: the real dataset, or a synthetic one.

A folder is `<cache>/data/<key>/`, named by what its content is made of; `.content` in it has the content's hash.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.data.download import fetch
from harness.data.jpegs import JpegRecipe
from harness.data.procedural import ArrayRecipe, PictureRecipe
from harness.data.published_datasets import PUBLISHED, Published
from harness.data.tables import TableRecipe
from harness.data.tokens import TokenRecipe
from harness.digests import file_sha256
from harness.errors import DataError
from harness.model.run import DataInfo
from harness.progress import Progress
from harness.system.file_locks import filling, replacing
from workloads.protocol import Data

MODES = ("auto", "real", "procedural")
_RECORD = ".content"
_Record = dict[str, Any]  # sha256, size_bytes, and a remark
_NOTHING: _Record = {"sha256": "", "size_bytes": 0, "remark": ""}


def ensure_data(
    data: Data,
    workload: str,
    cache: Path,
    mode: str,
    seed: int,
    progress: Progress,
    real: Mapping[str, Published] = PUBLISHED,
) -> tuple[Path, DataInfo]:
    """Return the folder with `data`'s files, and what it is.

    Arrays lie in x_train.npy, y_train.npy, x_test.npy and y_test.npy, their labels are uint8[n], int32[n]
    above 256 classes; JPEG files are <part>/<class>/<name>.jpg. For a declaration without training samples,
    whose workload makes its own, the folder is empty.

    Args:
        data: what the workload declares; fewer samples than published means the first ones.
        workload: goes into the answer.
        cache: root of the cache.
        mode: "real" or "procedural" insist; "auto" takes the real dataset where it can be had.
        seed: of the procedural dataset.
        progress: where bars and remarks go.
        real: the datasets that have a real version.

    Raises:
        UsageError: a declaration that contradicts the dataset it names.
        DataError: the real dataset was insisted on and cannot be had, or the cache cannot be written.
    """
    folder = cache / "data"
    try:
        with filling(folder / ".lock", progress):
            if data.train == 0:
                empty = folder / "none"
                empty.mkdir(exist_ok=True)
                path, kind, why, record = empty, "synthetic", "the workload makes its own samples", _NOTHING
            else:
                path, kind, why, record = _real_or_procedural(data, folder, mode, seed, progress, real)
    except OSError as error:
        full = "Free some space: a dataset takes up to 1.2 GB. Or: " if error.errno == errno.ENOSPC else ""
        raise DataError(
            f"Data cannot be written to {folder}: {error.strerror}.",
            hint=f"{full}Set TFBENCH_CACHE to another folder of yours.",
        ) from error
    return path, DataInfo(
        workload=workload,
        name=data.name,
        kind=kind,
        sha256=record["sha256"],
        why=", ".join(filter(None, (why, record["remark"]))),
        size_bytes=record["size_bytes"],
    )


def _real_or_procedural(
    data: Data, folder: Path, mode: str, seed: int, progress: Progress, real: Mapping[str, Published]
) -> tuple[Path, str, str, _Record]:
    """Return the folder with the data, "real" or "procedural", why it is that, and the record of its content."""
    published = real.get(data.name)
    if published is not None:
        published.check(data)
    elif mode == "real":
        raise DataError(
            f"The dataset {data.name!r} exists only as procedural data.",
            hint=f"Use --data auto. Real datasets: {', '.join(real)}.",
        )
    why = "asked for" if mode == "procedural" else "the dataset is declared by its shape only"
    if published is not None and mode != "procedural":
        key = [*(archive.checksum for archive in published.archives), data.train, data.test]
        try:
            path, record = _kept(
                folder, key, partial(_unpack, published, data, folder / "archives", progress)
            )
            return path, "real", "published files, checksums verified", record
        except DataError as error:
            if mode == "real":
                raise
            progress.line(f"Procedural data stands in for {data.name}: {error}")
            why = error.message
    recipe = _recipe(data)
    key = [recipe.__name__, recipe.version, repr(data), seed]
    path, record = _kept(folder, key, partial(_make, recipe(data, seed), data, progress))
    return path, "procedural", why, record


def _unpack(published: Published, data: Data, archives: Path, progress: Progress, folder: Path) -> str:
    paths = [fetch(archive, archives, progress) for archive in published.archives]
    with progress.task(f"reading {data.name}", None):
        return published.unpack(paths, data, folder)


def _make(recipe: JpegRecipe | ArrayRecipe, data: Data, progress: Progress, folder: Path) -> str:
    with progress.task(f"making {data.name} data", data.train + data.test) as bar:
        recipe.write(folder, bar)
    return ""


def _recipe(data: Data) -> type[JpegRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _kept(folder: Path, key: list[object], make: Callable[[Path], str]) -> tuple[Path, _Record]:
    """Return the folder that `key` stands for; `make` fills it if need be, and returns a remark on its content."""
    path = folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    if (path / _RECORD).exists():
        record: _Record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
        if record["size_bytes"] == sum(file.stat().st_size for file in _files(path)):
            return path, record
    with replacing(path) as made:
        remark = make(made)
        files = _files(made)
        lines = (f"{file.relative_to(made).as_posix()} {file_sha256(file)}\n" for file in files)
        record = {
            "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
            "size_bytes": sum(file.stat().st_size for file in files),
            "remark": remark,
        }
        (made / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return path, record


def _files(folder: Path) -> list[Path]:
    """Return a dataset's files in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".npy", ".jpg"))
