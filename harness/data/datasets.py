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

from harness.data.download import fetch
from harness.data.jpegs import JpegRecipe
from harness.data.procedural import ArrayRecipe, PictureRecipe
from harness.data.published_datasets import PUBLISHED, Published
from harness.data.tables import TableRecipe
from harness.data.tokens import TokenRecipe
from harness.digests import file_sha256
from harness.errors import DataError, UsageError
from harness.model.run import DataInfo
from harness.progress import Progress
from harness.system.file_locks import filling, replacing
from workloads.protocol import ARRAYS, Data

MODES = ("auto", "real", "procedural")
_RECORD = ".content"


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
        UsageError: an unknown mode, or a declaration that contradicts the dataset it names.
        DataError: the real dataset was insisted on and cannot be had, or the cache cannot be written.
    """
    if mode not in MODES:
        raise UsageError(f"There is no data mode {mode!r}.", hint=f"Choose one of: {', '.join(MODES)}.")
    folder = cache / "data"
    try:
        with filling(folder / ".lock", progress):
            if data.train == 0:
                empty = folder / "none"
                empty.mkdir(exist_ok=True)
                why = "the workload makes its own samples"
                return empty, DataInfo(
                    workload=workload, name=data.name, kind="synthetic", sha256="", why=why
                )
            path, kind, why = _real_or_procedural(data, folder, mode, seed, progress, real)
    except OSError as error:
        full = "Free some space: a dataset takes up to 1.2 GB. Or: " if error.errno == errno.ENOSPC else ""
        raise DataError(
            f"Data cannot be written to {folder}: {error.strerror}.",
            hint=f"{full}Set TFBENCH_CACHE to another folder of yours.",
        ) from error
    record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
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
) -> tuple[Path, str, str]:
    """Return the folder with the data, "real" or "procedural", and why it is that."""
    published = real.get(data.name)
    if published is not None:
        published.check(data)
    why = "asked for" if mode == "procedural" else "the dataset is declared by its shape only"
    if published is not None and mode != "procedural":
        key = [*(archive.checksum for archive in published.archives), data.train, data.test]
        try:
            path = _kept(folder, key, partial(_unpack, published, data, folder / "archives", progress))
            return path, "real", "published files, checksums verified"
        except DataError as error:
            if mode == "real":
                raise
            progress.line(f"Procedural data stands in for {data.name}: {error}")
            why = error.message
    elif mode == "real":
        raise DataError(
            f"The dataset {data.name!r} exists only as procedural data.",
            hint=f"Use --data auto. Real datasets: {', '.join(real)}.",
        )
    recipe = _recipe(data)
    key = [recipe.__name__, recipe.version, repr(data), seed]
    return _kept(folder, key, partial(_make, recipe(data, seed), data, progress)), "procedural", why


def _unpack(published: Published, data: Data, archives: Path, progress: Progress, folder: Path) -> str:
    paths = [fetch(archive, archives, progress) for archive in published.archives]
    with progress.task(f"reading {data.name}", None):
        return published.unpack(paths, data, folder)


def _make(recipe: JpegRecipe | ArrayRecipe, data: Data, progress: Progress, folder: Path) -> str:
    with progress.task(f"making {data.name} data", data.train + data.test, "samples") as bar:
        recipe.write(folder, bar)
    return ""


def _recipe(data: Data) -> type[JpegRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _kept(folder: Path, key: list[object], make: Callable[[Path], str]) -> Path:
    """Return the folder that `key` stands for; `make` fills it if need be, and returns a remark on its content."""
    path = folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    record = path / _RECORD
    if record.exists() and json.loads(record.read_text(encoding="utf-8"))["size_bytes"] == _size(path):
        return path
    with replacing(path) as made:
        remark = make(made)
        digest = hashlib.sha256()
        for name in _files(made):
            digest.update(f"{name.removesuffix('.npy')} {file_sha256(made / name)}\n".encode())
        content = {"sha256": digest.hexdigest(), "size_bytes": _size(made), "remark": remark}
        (made / _RECORD).write_text(json.dumps(content) + "\n", encoding="utf-8")
    return path


def _files(folder: Path) -> list[str]:
    """Return the paths of a dataset's files below its folder, in a fixed order."""
    arrays = [f"{name}.npy" for name in ARRAYS]
    if all((folder / name).exists() for name in arrays):
        return arrays
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


def _size(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in _files(folder))
