import gzip
import io
import pickle
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.datasets import ensure_data
from harness.data.published_datasets import Published, read_cifar, read_idx_files, read_reviews, save_arrays
from harness.errors import DataError, UsageError
from harness.model.run import DataInfo
from harness.model.workload import Data
from harness.progress import Silent
from harness.system.kept import file_sha256
from tests.web_server import serve
from workloads.protocol import ARRAYS, RARE, START

RANDOM = np.random.default_rng(7)
PIXELS = {
    "train": RANDOM.integers(256, size=(20, 3072), dtype=np.uint8),
    "test": RANDOM.integers(256, size=(6, 3072), dtype=np.uint8),
}
LABELS = {"train": [n % 4 for n in range(20)], "test": [n % 4 for n in range(6)]}


def load(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ARRAYS}


def cifar_archive(path: Path) -> Path:
    """Write an archive in CIFAR's format: pickled dictionaries with bytes keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    members = {
        f"cifar/{part}": pickle.dumps({b"data": PIXELS[part], b"labels": LABELS[part]}, protocol=2)
        for part in ("train", "test")
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


CIFAR = Data(name="small-cifar", shape=(32, 32, 3), classes=4, train=20, test=6)


def available(path: Path, url: str = "http://127.0.0.1:9") -> dict[str, Published]:
    """Return a table with one small dataset in CIFAR's format, published as `url`/<name of path>."""
    checksums = {f"{url}/{path.name}": f"sha256:{file_sha256(path)}"}
    return {CIFAR.name: Published(unpack=partial(save_arrays, read_cifar), checksums=checksums)}


def prepare(
    cache: Path, table: Mapping[str, Published], mode: str = "real", data: Data = CIFAR
) -> tuple[Path, DataInfo]:
    return ensure_data(data, cache, mode, 1, Silent(), table)


def check_cifar(folder: Path) -> None:
    arrays = load(folder)
    assert arrays["x_train"].shape == (20, 32, 32, 3)
    # The files contain red, green and blue planes, row by row.
    assert arrays["x_train"][3, 5, 7, 2] == PIXELS["train"][3, 2 * 1024 + 5 * 32 + 7]
    assert arrays["x_test"][1, 31, 0, 0] == PIXELS["test"][1, 31 * 32]
    assert arrays["y_train"].tolist() == LABELS["train"]
    assert arrays["y_test"].tolist() == LABELS["test"]
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.uint8)}


class TestReal:
    def test_manually_placed_archive_is_used(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "data/archives/small.tar.gz")
        folder, info = prepare(tmp_path, available(archive), "auto")
        check_cifar(folder)
        assert (info.kind, info.workload, info.name) == ("real", "", "small-cifar")
        few, _ = prepare(tmp_path, available(archive), data=replace(CIFAR, train=5, test=2))
        assert load(few)["y_train"].tolist() == LABELS["train"][:5]

    def test_truncated_archive_is_replaced_and_downloaded_once(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        truncated = tmp_path / "cache/data/archives/small.tar.gz"
        truncated.parent.mkdir(parents=True)
        truncated.write_bytes(archive.read_bytes()[:-5])
        unreachable = available(archive)
        _, info = prepare(tmp_path / "cache", unreachable, "auto")
        assert info.kind == "procedural"
        assert "Could not download small.tar.gz (ConnectionError)" in info.why
        with pytest.raises(DataError) as raised:
            prepare(tmp_path / "cache", unreachable)
        assert str(truncated) in raised.value.hint
        with serve(partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "home"))) as url:
            table = available(archive, url)
            folder, _ = prepare(tmp_path / "cache", table, "auto")
        check_cifar(folder)
        assert truncated.read_bytes() == archive.read_bytes()
        again, info = prepare(tmp_path / "cache", unreachable)
        assert (again, info.kind) == (folder, "real")

    def test_wrong_checksum_is_an_error(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        with serve(partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "home"))) as url:
            table = available(archive, url)
            archive.write_bytes(b"<html>please log in</html>")
            with pytest.raises(DataError, match="checksum"):
                prepare(tmp_path / "cache", table)
        assert not list((tmp_path / "cache/data/archives").glob("small*gz*"))

    @pytest.mark.parametrize(
        "wrong", [{"shape": (28, 28)}, {"train": 21}, {"test": 7}, {"classes": 5}], ids=str
    )
    def test_declaration_must_match_dataset(self, tmp_path: Path, wrong: dict[str, Any]) -> None:
        archive = cifar_archive(tmp_path / "data/archives/small.tar.gz")
        with pytest.raises(UsageError, match="does not match"):
            prepare(tmp_path, available(archive), "auto", data=replace(CIFAR, **wrong))

    def test_real_mode_needs_published_dataset(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="only as procedural"):
            ensure_data(replace(CIFAR, name="mine"), tmp_path, "real", 1, Silent())


class TestFormats:
    def test_idx(self, tmp_path: Path) -> None:
        x, y = RANDOM.integers(256, size=(5, 28, 28), dtype=np.uint8), np.arange(5, dtype=np.uint8)
        files = []
        for number, array in enumerate((x, y, x[:2], y[:2])):
            header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
            files.append(tmp_path / f"{number}.gz")
            files[-1].write_bytes(gzip.compress(header + array.tobytes()))
        arrays = read_idx_files(files, CIFAR)
        for name, expected in zip(ARRAYS, (x, y, x[:2], y[:2]), strict=True):
            np.testing.assert_array_equal(arrays[name], expected)

    def test_reviews_are_tokenized_by_keras_convention(self, tmp_path: Path) -> None:
        reviews = np.empty(4, object)
        reviews[:] = [[1, 2, 90], [7], [5] * 9, [3, 4]]
        path = tmp_path / "imdb.npz"
        np.savez(
            path,
            x_train=reviews, y_train=np.array([0, 1, 0, 1]),
            x_test=reviews[:2], y_test=np.array([1, 0]),
        )  # fmt: skip
        arrays = read_reviews([path], replace(CIFAR, shape=(5,), vocabulary=50))
        assert {array.dtype.name for array in arrays.values()} == {"uint16", "uint8"}
        rows = zip(map(tuple, arrays["x_train"].tolist()), arrays["y_train"].tolist(), strict=True)
        assert set(rows) == {
            ((START, 4, 5, RARE, 0), 0), ((START, 10, 0, 0, 0), 1), ((START, 8, 8, 8, 8), 0),
            ((START, 6, 7, 0, 0), 1),
        }  # fmt: skip
