"""Procedural data: reproducible from the seed, of the declared shape, learnable but not trivial."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.data.datasets import ensure_data
from harness.data.published_datasets import is_intact
from harness.errors import DataError
from harness.model.run import DataInfo
from harness.model.workload import Data
from harness.progress import Silent
from tests.fakes import RecordingProgress
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START

PICTURES = Data(name="pictures", shape=(8, 8, 3), classes=4, train=400, test=100)
TOKENS = Data(
    name="texts", shape=(500,), classes=2, train=4_000, test=1_000, dtype="uint16", vocabulary=5_000
)
TABLE = Data(name="t", shape=(6,), classes=2, train=70_000, test=4_000, dtype="float32", kind="table")
JPEGS = Data(
    name="pets", shape=(36, 40, 3), classes=2, train=60, test=20, kind="jpeg", class_names=("cat", "dog")
)


def generate(folder: Path, data: Data, seed: int = 1) -> tuple[Path, DataInfo]:
    return ensure_data(data, folder, "procedural", seed, Silent())


def arrays(folder: Path, data: Data, seed: int = 1) -> dict[str, np.ndarray]:
    path, _ = generate(folder, data, seed)
    return {name: np.load(path / f"{name}.npy", allow_pickle=False) for name in ARRAYS}


def jpegs(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


@pytest.mark.parametrize("data", [PICTURES, TOKENS, TABLE, JPEGS], ids=lambda data: data.name)
class TestEveryKind:
    def test_seed_determines_content_and_result_is_cached(self, tmp_path: Path, data: Data) -> None:
        folder, info = generate(tmp_path / "a", data)
        assert (info.kind, info.name, info.why) == ("procedural", data.name, "requested")
        assert generate(tmp_path / "b", data)[1] == info
        assert generate(tmp_path / "a", data, 2)[1].sha256 != info.sha256
        progress = RecordingProgress()
        again, _ = ensure_data(data, tmp_path / "a", "procedural", 1, progress)
        assert (again, progress.tasks) == (folder, [])

    def test_train_and_test_are_disjoint(self, tmp_path: Path, data: Data) -> None:
        folder, _ = generate(tmp_path, data)
        if data.kind == "jpeg":
            samples = [(folder / name).read_bytes() for name in jpegs(folder)]
            assert len(set(samples)) == len(samples)
        else:
            train = {sample.tobytes() for sample in np.load(folder / "x_train.npy")}
            assert not any(sample.tobytes() in train for sample in np.load(folder / "x_test.npy"))


class TestPictures:
    @pytest.mark.parametrize(
        ("shape", "dtype"),
        [((28, 28), "uint8"), ((20,), "float32"), ((4, 4, 4, 2), "int16"), ((1,), "float64")],
    )
    def test_any_shape_and_type(self, tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
        data = Data(name="x", shape=shape, classes=300, train=600, test=300, dtype=dtype)
        result = arrays(tmp_path, data)
        assert (result["x_train"].shape, result["x_test"].shape) == ((600, *shape), (300, *shape))
        assert result["x_train"].dtype == np.dtype(dtype)
        assert np.bincount(result["y_train"]).tolist() == [2] * 300
        assert np.isfinite(result["x_train"]).all()
        assert result["x_train"].std() > 0

    def test_linear_model_is_better_than_chance_but_not_perfect(self, tmp_path: Path) -> None:
        """A linear model cannot undo shifts."""
        result = arrays(tmp_path, replace(PICTURES, shape=(16, 16, 1), classes=10, train=4000, test=1000))
        x = np.c_[result["x_train"].reshape(4000, -1) / 255.0 - 0.5, np.ones(4000)]
        weights = np.linalg.solve(x.T @ x + np.eye(257), x.T @ np.eye(10)[result["y_train"]])
        test = np.c_[result["x_test"].reshape(1000, -1) / 255.0 - 0.5, np.ones(1000)]
        accuracy = ((test @ weights).argmax(axis=1) == result["y_test"]).mean()
        assert 0.3 < accuracy < 0.98


class TestTokens:
    def test_statistics_match_real_reviews(self, tmp_path: Path) -> None:
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

    def test_naive_bayes_is_better_than_chance_but_not_perfect(self, tmp_path: Path) -> None:
        result = arrays(tmp_path, TOKENS)
        observed = np.zeros((2, 5_000))
        for label in (0, 1):
            np.add.at(observed[label], result["x_train"][result["y_train"] == label].ravel(), 1)
        weights = np.log((observed[1] + 1) / (observed[0] + 1))
        weights[:50] = weights[606:] = 0.0  # opinions have ranks in between
        right = (weights[result["x_test"]].sum(axis=1) > 0) == result["y_test"]
        assert 0.65 < right.mean() < 0.99


@pytest.mark.parametrize(("columns", "classes"), [(1, 2), (3, 5)])
def test_tables_of_other_shapes(tmp_path: Path, columns: int, classes: int) -> None:
    result = arrays(tmp_path, replace(TABLE, shape=(columns,), classes=classes, train=5_000))
    assert set(np.unique(result["y_train"])) == set(range(classes))


def test_nearest_neighbours_predict_table_class(tmp_path: Path) -> None:
    """In a table of noise the neighbours would agree half of the time."""
    result = arrays(tmp_path, TABLE)
    assert abs(result["y_train"].mean() - 0.5) < 0.02
    spread = result["x_train"].std(axis=0)
    x = result["x_train"] / spread
    hits = [
        result["y_train"][np.square(x - row).sum(axis=1).argsort()[:25]].mean().round() == label
        for row, label in zip(result["x_test"][:150] / spread, result["y_test"], strict=False)
    ]
    assert np.mean(hits) > 0.6


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


def test_unwritable_cache_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DataError, match="Cannot write data") as raised:
        generate(tmp_path / "cache", PICTURES)
    assert "TFBENCH_CACHE" in raised.value.hint
