"""Prepare each workload's data as a folder of files: the real dataset, or a procedural one.

The folder is `<cache>/data/<key>/`. The key is a hash of everything that determines the content; `.content`
records the content's own hash and size.
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
_NO_DATA = "the workload generates its own samples"
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
    """Return the folder with the workload's data files, and a description of the data.

    Arrays are x_train.npy, y_train.npy, x_test.npy and y_test.npy. Labels are uint8[n], or int32[n] above 256
    classes. JPEG files are <part>/<class>/<name>.jpg. The folder is empty if no samples are declared.

    Args:
        data: the declaration; if it asks for fewer samples than published, the first ones are used.
        mode: "real", "procedural", or "auto" for the real dataset if it is available.
        seed: seed of the procedural dataset.
        real: published datasets by name.

    Raises:
        UsageError: the declaration does not match the dataset it names.
        DataError: the real dataset is required but not available, or the cache cannot be written.
    """
    folder = cache / "data"
    published = real.get(data.name)
    if data.train and published is None and mode == "real":
        raise DataError(
            f"The dataset {data.name!r} exists only as procedural data.",
            hint=f"Use --data auto. Published datasets: {', '.join(real)}.",
        )
    info = DataInfo(workload=workload, name=data.name, kind="synthetic", sha256="", why=_NO_DATA)
    try:
        with filling(folder / ".lock", progress):
            if data.train == 0:
                (folder / "none").mkdir(exist_ok=True)
                return folder / "none", info
            why = "requested" if mode == "procedural" else "the workload declares only the data's shape"
            if published is not None and mode != "procedural":
                try:
                    return _real(published, data, folder, replace(info, kind="real", why=_VERIFIED), progress)
                except DataError as error:
                    if mode == "real":
                        raise
                    progress.line(f"Using procedural data instead of {data.name}: {error}")
                    why = error.message
            return _procedural(data, seed, folder, replace(info, kind="procedural", why=why), progress)
    except OSError as error:
        raise DataError(
            f"Cannot write data to {folder}: {error.strerror}.",
            hint="Free some space (a dataset takes up to 1.2 GB), or set TFBENCH_CACHE to a writable folder.",
        ) from error


def _real(
    published: Published, data: Data, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def unpack(target: Path) -> str:
        paths = [fetch(*file, folder / "archives", progress) for file in published.checksums.items()]
        with progress.task(f"reading {data.name}", None):
            return published.unpack(paths, data, target)

    key: list[object] = [*published.checksums.values(), repr(data)]
    return _cached(folder, key, unpack, info)


def _procedural(
    data: Data, seed: int, folder: Path, info: DataInfo, progress: Progress
) -> tuple[Path, DataInfo]:
    def generate(target: Path) -> str:
        with progress.task(f"generating {data.name} data", data.train + data.test) as bar:
            recipe(data, seed).write(target, bar)
        return ""

    recipe = _recipe(data)
    return _cached(folder, [recipe.__name__, recipe.version, repr(data), seed], generate, info)


def _recipe(data: Data) -> type[JpegRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _cached(
    folder: Path, key: list[object], fill: Callable[[Path], str], info: DataInfo
) -> tuple[Path, DataInfo]:
    """Return the folder for `key`, filled by `fill` if necessary, and `info` with its hash, size and remark.

    Args:
        fill: writes the files into a folder and returns a remark or "".
    """
    path = folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    try:
        record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # after a power failure, the file may be empty
        record = {}
    if record.get("size_bytes") != _size_bytes(path):
        with replacing(path) as target:
            remark = fill(target)
            lines = (
                f"{file.relative_to(target).as_posix()} {file_sha256(file)}\n" for file in _files(target)
            )
            sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
            record = {"sha256": sha256, "size_bytes": _size_bytes(target), "remark": remark}
            (target / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    why = ", ".join(filter(None, (info.why, record.pop("remark"))))
    return path, replace(info, why=why, **record)


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    """Return a dataset's files in a deterministic order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".npy", ".jpg"))
