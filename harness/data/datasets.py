"""Prepare each workload's data as one folder of files: the real dataset, or a synthetic one.

Folders are named by their content, `<cache>/data/sha256-<hex>/`; `<cache>/data/index/` remembers which
folder a declaration led to.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.data.archives import disk_error, fetch
from harness.data.forms import FORMS, Form
from harness.data.jpegs import JpegRecipe
from harness.data.procedural import ArrayRecipe, PictureRecipe
from harness.data.published_data import Published
from harness.data.real_datasets import REAL_DATASETS
from harness.data.tables import TableRecipe
from harness.data.tokens import TokenRecipe
from harness.digests import file_sha256
from harness.errors import DataError, UsageError
from harness.model.run import DataInfo
from harness.progress import Progress
from harness.system.file_locks import filling
from workloads.protocol import Data

MODES = ("auto", "real", "procedural")


def ensure_data(
    data: Data,
    workload: str,
    cache: Path,
    mode: str,
    seed: int,
    progress: Progress,
    real: Mapping[str, Published] = REAL_DATASETS,
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
    try:
        with filling(cache / "data" / ".lock", progress):
            folder, info = _Datasets(cache / "data", seed, progress, real).find(data, workload, mode)
        names = FORMS[data.kind].files(folder) if data.train else ()
        return folder, replace(info, size_bytes=sum((folder / name).stat().st_size for name in names))
    except OSError as error:
        raise disk_error(cache / "data", error) from error


class _Datasets:
    def __init__(self, folder: Path, seed: int, progress: Progress, real: Mapping[str, Published]) -> None:
        self._folder = folder
        self._seed = seed
        self._progress = progress
        self._real = real

    def find(self, data: Data, workload: str, mode: str) -> tuple[Path, DataInfo]:
        if data.train == 0:
            empty = self._folder / "none"
            empty.mkdir(exist_ok=True)
            why = "the workload makes its own samples"
            return empty, DataInfo(workload=workload, name=data.name, kind="synthetic", sha256="", why=why)
        published = self._real.get(data.name)
        if published is not None:
            _check_declaration(data, published)
        if mode == "procedural":
            return self._procedural(data, workload, "asked for")
        if published is None:
            if mode == "real":
                raise DataError(
                    f"{workload} uses the dataset {data.name!r}, which exists only as procedural data.",
                    hint=f"Use --data auto. Real datasets: {', '.join(self._real)}.",
                )
            return self._procedural(data, workload, "the dataset is declared by its shape only")
        try:
            return self._fetched(data, workload, published, retry=mode == "real")
        except DataError as error:
            if mode == "real":
                raise
            self._progress.line(f"{workload} trains on procedural data: {error}")
            return self._procedural(data, workload, error.message)

    def _fetched(
        self, data: Data, workload: str, published: Published, *, retry: bool
    ) -> tuple[Path, DataInfo]:
        key = _key([*(archive.checksum for archive in published.archives), data.train, data.test])

        def make(folder: Path) -> str:
            archives = self._folder / "archives"
            paths = [fetch(archive, archives, self._progress, retry=retry) for archive in published.archives]
            with self._progress.task(f"reading {data.name}", None):
                return published.unpack(paths, data, folder)

        path, sha256, remark = self._content(key, data, make)
        why = "published files, checksums verified" + (f", {remark}" if remark else "")
        return path, DataInfo(workload=workload, name=data.name, kind="real", sha256=sha256, why=why)

    def _procedural(self, data: Data, workload: str, why: str) -> tuple[Path, DataInfo]:
        recipe = _recipe(data)
        key = _key([recipe.__name__, recipe.version, repr(data), self._seed])

        def make(folder: Path) -> str:
            with self._progress.task(f"making {data.name} data", data.train + data.test, "samples") as bar:
                recipe(data, self._seed).write(folder, bar)
            return ""

        path, sha256, _ = self._content(key, data, make)
        return path, DataInfo(workload=workload, name=data.name, kind="procedural", sha256=sha256, why=why)

    def _content(self, key: str, data: Data, make: Callable[[Path], str]) -> tuple[Path, str, str]:
        """Return the folder that `key` stands for, its content's hash, and what `make` said about it.

        It is made if need be.
        """
        form = FORMS[data.kind]
        index = self._folder / "index" / key
        if index.exists():
            sha256, _, remark = index.read_text(encoding="utf-8").strip().partition("\n")
            path = self._folder / f"sha256-{sha256}"
            if form.whole(path, data):
                return path, sha256, remark
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=self._folder) as temporary:
            made = Path(temporary) / "data"
            made.mkdir()
            remark = make(made)
            sha256 = _content_sha256(form, made)
            path = self._folder / f"sha256-{sha256}"
            if not form.whole(path, data):
                if path.exists():
                    path.rename(Path(temporary) / "torn")
                # The container's user is another one.
                made.chmod(0o755)
                made.rename(path)
        index.parent.mkdir(exist_ok=True)
        partial = index.with_name(f"{key}.{os.getpid()}")
        partial.write_text(f"{sha256}\n{remark}".strip() + "\n", encoding="utf-8")
        partial.replace(index)
        return path, sha256, remark


def _check_declaration(data: Data, published: Published) -> None:
    if not published.fits(data):
        raise UsageError(
            f"The declaration of {data.name} does not fit the dataset: it has {published.train} + "
            f"{published.test} samples of {published.shape} {published.dtype} in {published.classes} classes"
            f"{f' and {published.vocabulary} tokens' if published.vocabulary else ''}"
            f"{f', as {published.kind} files' if published.kind != 'arrays' else ''}.",
            hint="Correct the workload's Data(...), or use another dataset name.",
        )


def _recipe(data: Data) -> type[JpegRecipe | ArrayRecipe]:
    if data.kind == "jpeg":
        return JpegRecipe
    if data.kind == "table":
        return TableRecipe
    return TokenRecipe if data.vocabulary else PictureRecipe


def _key(identity: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _content_sha256(form: Form, folder: Path) -> str:
    digest = hashlib.sha256()
    for name in form.files(folder):
        digest.update(f"{name.removesuffix('.npy')} {file_sha256(folder / name)}\n".encode())
    return digest.hexdigest()
