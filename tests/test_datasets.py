"""Data for workloads: real archives in their published formats, and made data."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from harness.data.archives import Archive
from harness.data.datasets import ensure_data
from harness.data.published import PUBLISHED, Published, read_cifar, read_idx_files, save_arrays
from harness.errors import DataError, UsageError
from harness.progress import Silent
from tests.fakes import RecordingProgress
from workloads.protocol import ARRAYS, Data

SMALL = Data(name="made-up", shape=(8, 8, 3), classes=4, train=400, test=100)
RANDOM = np.random.default_rng(7)
PIXELS = {
    "train": RANDOM.integers(256, size=(20, 3072), dtype=np.uint8),
    "test": RANDOM.integers(256, size=(6, 3072), dtype=np.uint8),
}
LABELS = {"train": [n % 4 for n in range(20)], "test": [n % 4 for n in range(6)]}


def load(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ARRAYS}


def digest(path: Path, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, path.read_bytes()).hexdigest()}"


def cifar_archive(path: Path) -> Path:
    """Write an archive as CIFAR's authors do: pickled dictionaries with bytes as keys."""
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


def available(path: Path, url: str = "http://127.0.0.1:9") -> dict[str, Published]:
    """Return a table of one small dataset in CIFAR's format whose file is `path`'s."""
    return {
        "small-cifar": Published(
            archives=(Archive(file=path.name, url=f"{url}/{path.name}", checksum=digest(path)),),
            unpack=partial(
                save_arrays,
                partial(read_cifar, train=["cifar/train"], test=["cifar/test"], labels=b"labels"),
            ),
            whole=CIFAR,
        )
    }


CIFAR = Data(name="small-cifar", shape=(32, 32, 3), classes=4, train=20, test=6)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder's files and give its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def check_cifar(folder: Path) -> None:
    arrays = load(folder)
    assert arrays["x_train"].shape == (20, 32, 32, 3)
    # The files hold planes of red, green and blue, rows first.
    assert arrays["x_train"][3, 5, 7, 2] == PIXELS["train"][3, 2 * 1024 + 5 * 32 + 7]
    assert arrays["x_test"][1, 31, 0, 0] == PIXELS["test"][1, 31 * 32]
    assert arrays["y_train"].tolist() == LABELS["train"]
    assert arrays["y_test"].tolist() == LABELS["test"]
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.uint8)}


class TestReal:
    def test_an_archive_put_there_by_hand_is_enough(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "data/archives/small.tar.gz")
        folder, info = ensure_data(CIFAR, "w", tmp_path, "auto", 1, Silent(), available(archive))
        check_cifar(folder)
        assert (info.kind, info.workload, info.name) == ("real", "w", "small-cifar")

    def test_is_fetched_once(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        unreachable = available(archive)
        _, info = ensure_data(CIFAR, "w", tmp_path / "cache", "auto", 1, Silent(), unreachable)
        assert (info.kind, "could not be fetched (ConnectionError)" in info.why) == ("procedural", True)
        with served(tmp_path / "home") as url:
            table = available(archive, url)
            folder, _ = ensure_data(CIFAR, "w", tmp_path / "cache", "auto", 1, Silent(), table)
        check_cifar(folder)
        again, info = ensure_data(CIFAR, "w", tmp_path / "cache", "real", 1, Silent(), unreachable)
        assert (again, info.kind) == (folder, "real")

    def test_fewer_samples_are_the_first_ones(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "data/archives/small.tar.gz")
        few = replace(CIFAR, train=5, test=2)
        folder, _ = ensure_data(few, "w", tmp_path, "real", 1, Silent(), available(archive))
        assert load(folder)["y_train"].tolist() == LABELS["train"][:5]

    def test_insisting_fails_with_what_to_do(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        with pytest.raises(DataError) as caught:
            ensure_data(CIFAR, "w", tmp_path / "cache", "real", 1, Silent(), available(archive))
        assert str(tmp_path / "cache/data/archives/small.tar.gz") in caught.value.hint

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        with served(tmp_path / "home") as url:
            table = available(archive, url)
            archive.write_bytes(b"<html>please log in</html>")
            with pytest.raises(DataError, match="not the published file"):
                ensure_data(CIFAR, "w", tmp_path / "cache", "real", 1, Silent(), table)
        assert not list((tmp_path / "cache/data/archives").glob("small*gz*"))

    def test_a_torn_file_by_hand_is_fetched_again(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        torn = tmp_path / "data/archives/small.tar.gz"
        torn.parent.mkdir(parents=True)
        torn.write_bytes(archive.read_bytes()[:-5])
        with served(tmp_path / "home") as url:
            _, info = ensure_data(CIFAR, "w", tmp_path, "real", 1, Silent(), available(archive, url))
        assert info.kind == "real"
        assert torn.read_bytes() == archive.read_bytes()

    def test_a_declaration_that_contradicts_the_dataset(self, tmp_path: Path) -> None:
        wrong = Data(name="cifar10", shape=(28, 28), classes=10, train=10, test=10)
        with pytest.raises(UsageError, match="does not fit"):
            ensure_data(wrong, "w", tmp_path, "auto", 1, Silent())

    def test_a_dataset_without_a_real_version(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="only as procedural"):
            ensure_data(SMALL, "w", tmp_path, "real", 1, Silent())

    def test_an_unknown_mode(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no data mode"):
            ensure_data(SMALL, "w", tmp_path, "reel", 1, Silent())

    @pytest.mark.parametrize("name", sorted(PUBLISHED))
    def test_known_datasets_name_whole_checksums(self, name: str) -> None:
        lengths = {"md5": 32, "sha256": 64}
        for archive in PUBLISHED[name].archives:
            algorithm, _, digits = archive.checksum.partition(":")
            assert len(bytes.fromhex(digits)) * 2 == lengths[algorithm]


class TestFormats:
    def test_idx(self, tmp_path: Path) -> None:
        x, y = RANDOM.integers(256, size=(5, 28, 28), dtype=np.uint8), np.arange(5, dtype=np.uint8)
        files = []
        for number, array in enumerate((x, y, x[:2], y[:2])):
            header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
            files.append(tmp_path / f"{number}.gz")
            files[-1].write_bytes(gzip.compress(header + array.tobytes()))
        arrays = read_idx_files(files)
        for name, expected in zip(ARRAYS, (x, y, x[:2], y[:2]), strict=True):
            np.testing.assert_array_equal(arrays[name], expected)


class TestProcedural:
    def test_has_the_declared_shape_type_and_balance(self, tmp_path: Path) -> None:
        folder, info = ensure_data(SMALL, "w", tmp_path, "auto", 1, Silent())
        arrays = load(folder)
        assert arrays["x_train"].shape == (400, 8, 8, 3)
        assert arrays["x_test"].shape == (100, 8, 8, 3)
        assert arrays["x_train"].dtype == np.uint8
        assert np.bincount(arrays["y_train"]).tolist() == [100] * 4
        assert np.bincount(arrays["y_test"]).tolist() == [25] * 4
        assert 30 < arrays["x_train"].std() < 80
        assert info.kind == "procedural"

    def test_the_same_seed_makes_the_same_bytes_elsewhere(self, tmp_path: Path) -> None:
        _, one = ensure_data(SMALL, "w", tmp_path / "a", "auto", 1, Silent())
        _, two = ensure_data(SMALL, "w", tmp_path / "b", "auto", 1, Silent())
        _, other = ensure_data(SMALL, "w", tmp_path / "a", "auto", 2, Silent())
        assert one.sha256 == two.sha256 != other.sha256

    def test_is_made_once(self, tmp_path: Path) -> None:
        folder, _ = ensure_data(SMALL, "w", tmp_path, "auto", 1, Silent())
        progress = RecordingProgress()
        assert ensure_data(SMALL, "w2", tmp_path, "auto", 1, progress)[0] == folder
        assert progress.tasks == []

    def test_a_torn_folder_is_made_again(self, tmp_path: Path) -> None:
        folder, _ = ensure_data(SMALL, "w", tmp_path, "auto", 1, Silent())
        x = folder / "x_train.npy"
        whole = x.read_bytes()
        x.write_bytes(whole[:-100])
        again, _ = ensure_data(SMALL, "w", tmp_path, "auto", 1, Silent())
        assert again == folder
        assert x.read_bytes() == whole

    def test_train_and_test_are_not_the_same_samples(self, tmp_path: Path) -> None:
        folder, _ = ensure_data(SMALL, "w", tmp_path, "auto", 1, Silent())
        arrays = load(folder)
        train = {sample.tobytes() for sample in arrays["x_train"]}
        assert not any(sample.tobytes() in train for sample in arrays["x_test"])

    @pytest.mark.parametrize(
        ("shape", "dtype"),
        [
            ((28, 28), "uint8"),
            ((20,), "float32"),
            ((4, 4, 4, 2), "int16"),
            ((6, 6, 1), "int8"),
            ((1,), "float64"),
        ],
    )
    def test_any_shape_and_type(self, tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
        data = Data(name="x", shape=shape, classes=300, train=600, test=300, dtype=dtype)
        arrays = load(ensure_data(data, "w", tmp_path, "auto", 1, Silent())[0])
        assert arrays["x_train"].shape == (600, *shape)
        assert arrays["x_train"].dtype == np.dtype(dtype)
        assert arrays["y_train"].max() == 299
        assert np.isfinite(arrays["x_train"]).all()
        assert arrays["x_train"].std() > 0

    def test_a_workload_that_makes_its_own_gets_an_empty_folder(self, tmp_path: Path) -> None:
        data = Data(name="synthetic", shape=(224, 224, 3), classes=1000, train=0, test=0)
        folder, info = ensure_data(data, "w", tmp_path, "real", 1, Silent())
        assert list(folder.iterdir()) == []
        assert info.kind == "synthetic"

    def test_can_be_learnt_but_not_at_a_glance(self, tmp_path: Path) -> None:
        """A linear model, which cannot undo shifts, lands between chance and perfection."""
        data = Data(name="x", shape=(16, 16, 1), classes=10, train=4000, test=1000)
        arrays = load(ensure_data(data, "w", tmp_path, "auto", 1, Silent())[0])
        x = np.c_[arrays["x_train"].reshape(4000, -1) / 255.0 - 0.5, np.ones(4000)]
        weights = np.linalg.solve(x.T @ x + np.eye(257), x.T @ np.eye(10)[arrays["y_train"]])
        test = np.c_[arrays["x_test"].reshape(1000, -1) / 255.0 - 0.5, np.ones(1000)]
        accuracy = ((test @ weights).argmax(axis=1) == arrays["y_test"]).mean()
        assert 0.3 < accuracy < 0.98

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("in the way")
        with pytest.raises(DataError, match="TFBENCH_CACHE"):
            ensure_data(SMALL, "w", tmp_path / "cache", "auto", 1, Silent())
