"""Prepare each workload's data as a folder of files: the real dataset, or a procedural one.

The folder is `<cache>/data/<key>/`; the key is a hash of what determines its content, whose hash is in
`.content`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

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
_NO_DATA = "the workload makes its own samples"
_VERIFIED = "published files, checksums verified"


def ensure_data(
    data: Data,
    workload: str,
    cache: Path,
    mode: str,
    seed: int,
    progress: Progress,
    real: Mapping[str, Published] = PUBLISHED,
) -> tuple[Path, DataInfo]:
    """Return the folder with `data`'s files, and a description.

    Arrays are x_train.npy, y_train.npy, x_test.npy and y_test.npy, with labels uint8[n], or int32[n] above
    256 classes; JPEG files are <part>/<class>/<name>.jpg. Without training samples the folder is empty.

    Args:
        data: the declaration; fewer samples than published are the first ones.
        mode: "real", "procedural", or "auto" for the real dataset if it is available.
        seed: of the procedural dataset.
        real: published datasets by name.

    Raises:
        UsageError: the declaration contradicts the dataset that it names.
        DataError: the real dataset is required and not available, or the cache cannot be written.
    """
    folder = cache / "data"
    published = real.get(data.name)
    if data.train and published is None and mode == "real":
        raise DataError(
            f"The dataset {data.name!r} exists only as procedural data.",
            hint=f"Use --data auto. Real datasets: {', '.join(real)}.",
        )
    info = DataInfo(workload=workload, name=data.name, kind="synthetic", sha256="", why=_NO_DATA)
    try:
        with filling(folder / ".lock", progress):
            if data.train == 0:
                (folder / "none").mkdir(exist_ok=True)
                return folder / "none", info
            why = "asked for" if mode == "procedural" else "the dataset is declared by its shape only"
            if published is not None and mode != "procedural":
                try:
                    return _real(published, data, folder, replace(info, kind="real", why=_VERIFIED), progress)
                except DataError as error:
                    if mode == "real":
                        raise
                    progress.line(f"Procedural data stands in for {data.name}: {error}")
                    why = error.message
            return _procedural(data, seed, folder, replace(info, kind="procedural", why=why), progress)
    except OSError as error:
        raise DataError(
            f"Data cannot be written to {folder}: {error.strerror}.",
            hint="Free some space (a dataset takes up to 1.2 GB), or set TFBENCH_CACHE to another folder of yours.",
        ) from error


def _real(
    published: Published, data: Data, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def unpack(made: Path) -> str:
        paths = [fetch(*file, folder / "archives", progress) for file in published.checksums.items()]
        with progress.task(f"reading {data.name}", None):
            return published.unpack(paths, data, made)

    key: list[object] = [*published.checksums.values(), repr(data)]
    return _kept(folder, key, unpack, info)


def _procedural(
    data: Data, seed: int, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def make(made: Path) -> str:
        with progress.task(f"making {data.name} data", data.train + data.test) as bar:
            recipe(data, seed).write(made, bar)
        return ""

    recipe = _recipe(data)
    return _kept(folder, [recipe.__name__, recipe.version, repr(data), seed], make, info)


def _recipe(data: Data) -> type[JpegRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _kept(
    folder: Path, key: list[object], make: Callable[[Path], str], info: DataInfo
) -> tuple[Path, DataInfo]:
    """Return the folder for `key`, and `info` with its hash and size; `make` fills it and returns a remark."""
    path = folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    kept = path / _RECORD
    record = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if record.get("size_bytes") != _size_bytes(path):
        with replacing(path) as made:
            remark = make(made)
            lines = (f"{file.relative_to(made).as_posix()} {file_sha256(file)}\n" for file in _files(made))
            sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
            record = {"sha256": sha256, "size_bytes": _size_bytes(made), "remark": remark}
            (made / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    why = ", ".join(filter(None, (info.why, record.pop("remark"))))
    return path, replace(info, why=why, **record)


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    """Return a dataset's files in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".npy", ".jpg"))
