import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.data.datasets import ensure_data
from harness.data.generated import CARDINALITIES, checksums
from harness.data.published_datasets import (
    PublishedDataset,
    is_intact,
    read_cifar,
    read_idx_files,
    read_reviews,
    save_arrays,
    unpack_pets,
)
from harness.errors import DataError, StoreError, UsageError
from harness.model.run import DataInfo
from harness.model.workload import Data
from harness.progress import Silent
from harness.system.shared_files import file_sha256
from tests.commands import serve
from tests.errors import user_error
from tests.fakes import RecordingProgress
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START

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


def available(path: Path, url: str = "http://127.0.0.1:9", **unpack: Any) -> dict[str, PublishedDataset]:
    """Return a table of one data set, published as `url`/<name of path>: a small one in CIFAR's format, or `unpack`."""
    checksums = {f"{url}/{path.name}": f"sha256:{file_sha256(path)}"}
    unpack = unpack or {CIFAR.name: partial(save_arrays, read_cifar)}
    return {name: PublishedDataset(unpack=each, checksums=checksums) for name, each in unpack.items()}


def prepare(
    cache: Path, table: Mapping[str, PublishedDataset], mode: str = "real", data: Data = CIFAR
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
        with pytest.raises(DataError, match="only as procedural"):
            ensure_data(replace(CIFAR, name="mine"), tmp_path, "real", 1, Silent())
        archive = cifar_archive(tmp_path / "data/archives/small.tar.gz")
        folder, info = prepare(tmp_path, available(archive), "auto")
        check_cifar(folder)
        assert (info.kind, info.workload, info.name) == ("real", "", "small-cifar")
        few, _ = prepare(tmp_path, available(archive), data=replace(CIFAR, train=5, test=2))
        assert load(few)["y_train"].tolist() == LABELS["train"][:5]
        for wrong in ({"shape": (28, 28)}, {"train": 21}, {"test": 7}, {"classes": 5}):
            with pytest.raises(UsageError, match="does not match"):
                prepare(tmp_path, available(archive), "auto", data=replace(CIFAR, **wrong))

    def test_truncated_archive_is_replaced_and_downloaded_once(self, tmp_path: Path) -> None:
        archive = cifar_archive(tmp_path / "home/small.tar.gz")
        truncated = tmp_path / "cache/data/archives/small.tar.gz"
        truncated.parent.mkdir(parents=True)
        truncated.write_bytes(archive.read_bytes()[:-5])
        unreachable = available(archive)
        _, info = prepare(tmp_path / "cache", unreachable, "auto")
        assert info.kind == "procedural"
        assert "Could not download small.tar.gz (ConnectionError). The one in" in info.why
        assert "has another checksum" in info.why
        with user_error(DataError, hint=str(truncated)):
            prepare(tmp_path / "cache", unreachable)
        with serve(partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "home"))) as url:
            table = available(archive, url)
            content = archive.read_bytes()
            archive.write_bytes(b"<html>please log in</html>")
            with pytest.raises(DataError, match="checksum"):
                prepare(tmp_path / "other", table)
            assert not list((tmp_path / "other/data/archives").glob("small*gz*"))
            archive.write_bytes(content)
            folder, _ = prepare(tmp_path / "cache", table, "auto")
        check_cifar(folder)
        assert truncated.read_bytes() == archive.read_bytes()
        again, info = prepare(tmp_path / "cache", unreachable)
        assert (again, info.kind) == (folder, "real")


class TestFormats:
    def test_idx(self, tmp_path: Path) -> None:
        x, y = RANDOM.integers(256, size=(5, 28, 28), dtype=np.uint8), np.arange(5, dtype=np.uint8)
        files = [tmp_path / f"{number}.gz" for number in range(4)]
        for file, array in zip(files, wanted := (x, y, x[:2], y[:2]), strict=True):
            header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
            file.write_bytes(gzip.compress(header + array.tobytes()))
        for name, expected in zip(ARRAYS, wanted, strict=True):
            np.testing.assert_array_equal(read_idx_files(files, CIFAR)[name], expected)

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


PICTURES = Data(name="pictures", shape=(8, 8, 3), classes=4, train=400, test=100)
TOKENS = Data(
    name="texts", shape=(500,), classes=2, train=4_000, test=1_000, dtype="uint16", vocabulary=5_000
)
TABLE = Data(name="t", shape=(6,), classes=2, train=70_000, test=4_000, dtype="float32", kind="table")
JPEGS = Data(
    name="pets", shape=(36, 40, 3), classes=2, train=60, test=20, kind="jpeg", class_names=("cat", "dog")
)

CLICKS = Data(
    name="clicks", shape=(13, 26), classes=2, train=70_000, test=500, dtype="float32", kind="clicks"
)


def generate(folder: Path, data: Data, seed: int = 1) -> tuple[Path, DataInfo]:
    return ensure_data(data, folder, "procedural", seed, Silent())


def arrays(folder: Path, data: Data) -> dict[str, np.ndarray]:
    return load(generate(folder, data)[0])


def jpegs(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


@pytest.mark.parametrize(
    "data",
    [PICTURES, replace(TOKENS, train=400, test=100), replace(TABLE, train=4_000, test=1_000), JPEGS, CLICKS],
    ids=lambda data: data.name,
)
def test_seed_determines_content_which_is_cached_and_disjoint(tmp_path: Path, data: Data) -> None:
    folder, info = generate(tmp_path / "a", data)
    assert (info.kind, info.name, info.why) == ("procedural", data.name, "requested")
    (tmp_path / "file").write_text("a file, not a folder")
    with user_error(StoreError, "is not in a folder", hint="TFBENCH_CACHE"):
        generate(tmp_path / "file", data)
    assert generate(tmp_path / "b", data)[1] == info
    assert generate(tmp_path / "a", data, 2)[1].sha256 != info.sha256
    progress = RecordingProgress()
    again, _ = ensure_data(data, tmp_path / "a", "procedural", 1, progress)
    assert (again, progress.tasks) == (folder, [])
    if data.kind == "jpeg":
        samples = [(folder / name).read_bytes() for name in jpegs(folder)]
        assert len(set(samples)) == len(samples)
    elif data.kind == "clicks":
        size = 219  # of a record
        contents = [path.read_bytes() for path in folder.glob("*.tfrecord")]
        samples = [each[at : at + size] for each in contents for at in range(0, len(each), size)]
        assert len(set(samples)) == len(samples) == data.train + data.test
    else:
        train = {sample.tobytes() for sample in np.load(folder / "x_train.npy")}
        assert not any(sample.tobytes() in train for sample in np.load(folder / "x_test.npy"))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((28, 28), "uint8"), ((20,), "float32"), ((4, 4, 4, 2), "int16"), ((1,), "float64")],
)
def test_pictures_of_any_shape_and_type(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    data = Data(name="x", shape=shape, classes=300, train=600, test=300, dtype=dtype)
    result = arrays(tmp_path, data)
    assert (result["x_train"].shape, result["x_test"].shape) == ((600, *shape), (300, *shape))
    assert result["x_train"].dtype == np.dtype(dtype)
    assert np.bincount(result["y_train"]).tolist() == [2] * 300
    assert np.isfinite(result["x_train"]).all() and result["x_train"].std() > 0


class TestTokens:
    def test_statistics_match_real_reviews_which_can_be_told_but_not_perfectly(self, tmp_path: Path) -> None:
        result = arrays(tmp_path, TOKENS)
        x = result["x_train"]
        assert (x.dtype, x.shape) == (np.dtype(np.uint16), (4_000, 500))
        assert np.bincount(result["y_train"]).tolist() == [2_000, 2_000]
        lengths = np.count_nonzero(x, axis=1)
        assert np.median(lengths) == pytest.approx(178, rel=0.05)
        assert 0.05 < np.mean(lengths == 500) < 0.15
        assert all(not row[length:].any() for row, length in zip(x, lengths, strict=True)), "padding"
        assert set(x[:, 0]) == {START}
        counts = np.bincount(x.ravel(), minlength=5_000)
        assert counts[FIRST_WORD] > 3 * counts[FIRST_WORD + 9], "Zipf's law"
        assert counts[RARE] == counts[3] == 0
        assert x.max() < 5_000
        observed = np.zeros((2, 5_000))
        for label in (0, 1):
            np.add.at(observed[label], result["x_train"][result["y_train"] == label].ravel(), 1)
        weights = np.log((observed[1] + 1) / (observed[0] + 1))
        weights[:50] = weights[606:] = 0.0  # opinions have ranks in between
        right = (weights[result["x_test"]].sum(axis=1) > 0) == result["y_test"]
        assert 0.65 < right.mean() < 0.99


def test_clicks_are_records_with_checksums_whose_ids_follow_zipfs_law(tmp_path: Path) -> None:
    # RFC 3720, B.4: the checksum of 32 bytes of zeros; TensorFlow rotates it and adds a constant.
    crc = 0x8A9136AA
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)
    assert checksums(np.zeros((1, 32), np.uint8)).tobytes() == masked.to_bytes(4, "little")
    folder, _ = generate(tmp_path, CLICKS)
    names = sorted(path.name for path in folder.glob("*.tfrecord"))
    assert names == ["test-00000.tfrecord", "train-00000.tfrecord", "train-00001.tfrecord"]
    rows = np.frombuffer((folder / "train-00000.tfrecord").read_bytes(), np.uint8).reshape(1 << 16, -1)
    assert (rows[:, :8] == np.frombuffer((rows.shape[1] - 16).to_bytes(8, "little"), np.uint8)).all()
    assert (checksums(rows[:, 12:-4]) == rows[:, -4:]).all()
    ids = rows[:, -4 - 4 * 26 : -4].reshape(-1, 26, 4).astype(np.int64) & 0x7F
    ids = (ids << np.array([0, 7, 14, 21])).sum(-1)
    assert (ids.max(0) < CARDINALITIES).all()
    for column in (0, 1, 7):
        _, counts = np.unique(ids[:, column], return_counts=True)
        # The most frequent of N values is as frequent as 1 / log2(N + 1), the second as 0.58 of it.
        first, second = np.sort(counts)[:-3:-1]
        assert first / len(ids) == pytest.approx(1 / np.log2(CARDINALITIES[column] + 1), rel=0.05)
        assert second / first == pytest.approx(np.log2(1.5), rel=0.1)


def test_jpegs_have_published_layout_and_sizes(tmp_path: Path) -> None:
    """Cats and dogs: 404 x 360 pixels and 31 KB on average, sides rarely above 500."""
    folder, info = generate(tmp_path, replace(JPEGS, shape=(360, 404, 3), train=150, test=50))
    names = [
        f"{part}/{name}/{number:05d}.jpg"
        for part, count in (("test", 25), ("train", 75))
        for name in ("cat", "dog")
        for number in range(count)
    ]
    assert jpegs(folder) == names
    assert all(is_intact((folder / name).read_bytes()) for name in names)
    sizes = np.array([Image.open(folder / name).size for name in names])
    assert sizes.mean(axis=0) == pytest.approx((404, 360), rel=0.06)
    assert sizes.max() <= 500
    assert sizes.min() < 200
    assert info.size_bytes / 200 == pytest.approx(31_400, rel=0.1)


def picture(seed: int, mode: str = "RGB", kind: str = "JPEG") -> bytes:
    random = np.random.default_rng(seed)
    image = Image.fromarray(random.integers(256, size=(24, 32, 3), dtype=np.uint8)).convert(mode)
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


BROKEN = {
    "empty": b"",
    "cut off": picture(1)[:-200],
    "a PNG": picture(2, kind="PNG"),
    "no picture": b"<html>",
    "for print": picture(3, mode="CMYK"),
}


def pets_archive(path: Path) -> Path:
    """Write an archive like Microsoft's: numbered files of two classes, the first ones broken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme[1].txt", "hello")
        for offset, name in ((0, "Cat"), (1000, "Dog")):
            contents = [*BROKEN.values(), *(picture(offset + number) for number in range(40))]
            for number, content in enumerate(contents):
                out.writestr(f"PetImages/{name}/{number}.jpg", content)
            out.writestr(f"PetImages/{name}/Thumbs.db", b"x")
    return path


def test_broken_files_are_skipped_and_counted(tmp_path: Path) -> None:
    table = available(pets_archive(tmp_path / "data/archives/pets.zip"), pets=unpack_pets)
    folder, info = ensure_data(JPEGS, tmp_path, "real", 1, Silent(), table)
    assert [name for name, content in BROKEN.items() if is_intact(content)] == []
    assert is_intact(picture(5)) and is_intact(picture(5, mode="L"))
    assert len(list(folder.rglob("*.jpg"))) == 80
    # The first thirty intact pictures of a class are for training, the next for testing.
    assert (folder / "train/cat/00000.jpg").read_bytes() == picture(0)
    assert (folder / "test/dog/00000.jpg").read_bytes() == picture(1030)
    assert info.kind == "real"
    assert "10 broken files of 90 skipped" in info.why
    _, again = ensure_data(JPEGS, tmp_path, "real", 1, Silent(), table)
    assert again == info, "the number of skipped files is cached"
    with pytest.raises(DataError, match=r"fewer than 50 .* cat"):
        ensure_data(replace(JPEGS, train=80), tmp_path, "real", 1, Silent(), table)
