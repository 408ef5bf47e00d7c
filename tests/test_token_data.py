"""Token sequences: made ones have the reviews' lengths and words; the published ones become the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.data.datasets import ensure_data
from harness.data.published import read_reviews
from harness.errors import UsageError
from harness.progress import Silent
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START, Data

DATA = Data(name="texts", shape=(500,), classes=2, train=4_000, test=1_000, dtype="uint16", vocabulary=5_000)


def made(folder: Path, seed: int = 1, data: Data = DATA) -> dict[str, np.ndarray]:
    path, info = ensure_data(data, "w", folder, "procedural", seed, Silent())
    assert info.kind == "procedural"
    return {name: np.load(path / f"{name}.npy") for name in ARRAYS}


class TestMade:
    def test_lengths_classes_and_words_are_those_of_reviews(self, tmp_path: Path) -> None:
        arrays = made(tmp_path)
        x = arrays["x_train"]
        assert (x.dtype, x.shape) == (np.dtype(np.uint16), (4_000, 500))
        assert np.bincount(arrays["y_train"]).tolist() == [2_000, 2_000]
        lengths = np.count_nonzero(x, axis=1)
        assert np.median(lengths) == pytest.approx(178, rel=0.05)
        assert 0.05 < np.mean(lengths == 500) < 0.15
        assert all(not row[length:].any() for row, length in zip(x, lengths, strict=True)), (
            "zeros only at the end"
        )
        assert set(x[:, 0]) == {START}
        counts = np.bincount(x.ravel(), minlength=5_000)
        assert counts[FIRST_WORD] > 3 * counts[FIRST_WORD + 9], "words come by Zipf's law"
        assert counts[RARE] == counts[3] == 0
        assert x.max() < 5_000

    def test_the_classes_can_be_told_apart_but_not_without_error(self, tmp_path: Path) -> None:
        arrays = made(tmp_path)
        observed = np.zeros((2, 5_000))
        for label in (0, 1):
            np.add.at(observed[label], arrays["x_train"][arrays["y_train"] == label].ravel(), 1)
        weights = np.log((observed[1] + 1) / (observed[0] + 1))
        weights[:50] = weights[606:] = 0.0  # only here are words that speak for a class
        right = (weights[arrays["x_test"]].sum(axis=1) > 0) == arrays["y_test"]
        assert 0.65 < right.mean() < 0.99

    def test_the_seed_makes_the_bytes(self, tmp_path: Path) -> None:
        first, again, other = made(tmp_path / "a"), made(tmp_path / "b"), made(tmp_path / "c", seed=2)
        assert all((first[name] == again[name]).all() for name in ARRAYS)
        assert (first["x_train"] != other["x_train"]).any()

    def test_a_small_vocabulary_and_many_classes_will_do(self, tmp_path: Path) -> None:
        data = Data(name="t", shape=(20,), classes=5, train=50, test=10, dtype="uint8", vocabulary=40)
        assert made(tmp_path, data=data)["x_train"].max() < 40


def ragged(reviews: list[list[int]]) -> np.ndarray:
    array = np.empty(len(reviews), object)
    array[:] = reviews
    return array


class TestPublished:
    def test_reviews_become_tokens_by_keras_convention(self, tmp_path: Path) -> None:
        reviews = [[1, 2, 90], [7], [5] * 9, [3, 4]]
        path = tmp_path / "imdb.npz"
        np.savez(
            path,
            x_train=ragged(reviews), y_train=np.array([0, 1, 0, 1]),
            x_test=ragged(reviews[:2]), y_test=np.array([1, 0]),
        )  # fmt: skip
        arrays = read_reviews([path], 5, 50)
        assert {array.dtype.name for array in arrays.values()} == {"uint16", "uint8"}
        rows = {
            (tuple(x), int(y)) for x, y in zip(arrays["x_train"].tolist(), arrays["y_train"], strict=True)
        }
        assert rows == {
            ((START, 4, 5, RARE, 0), 0), ((START, 10, 0, 0, 0), 1), ((START, 8, 8, 8, 8), 0),
            ((START, 6, 7, 0, 0), 1),
        }  # fmt: skip

    def test_a_declaration_has_to_fit_the_published_vocabulary(self, tmp_path: Path) -> None:
        data = Data(name="imdb", shape=(500,), classes=2, train=9, test=9, dtype="uint16", vocabulary=9)
        with pytest.raises(UsageError, match="vocabulary=20000"):
            ensure_data(data, "w", tmp_path, "auto", 1, Silent())
