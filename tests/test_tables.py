"""Procedural tables: the same bytes for a seed, classes in equal parts, and something to be learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.data.datasets import ensure_data
from harness.data.tables import TableRecipe
from harness.progress import Silent
from workloads.protocol import Data

DATA = Data(name="t", shape=(6,), classes=2, train=70_000, test=4_000, dtype="float32", kind="table")


def made(folder: Path, data: Data = DATA, seed: int = 1) -> dict[str, np.ndarray]:
    folder.mkdir()
    with Silent().task("", None) as bar:
        TableRecipe(data, seed).write(folder, bar)
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


def test_shapes_types_and_classes(tmp_path: Path) -> None:
    arrays = made(tmp_path / "a")
    assert arrays["x_train"].shape == (70_000, 6)
    assert arrays["x_train"].dtype == np.float32
    assert np.isfinite(arrays["x_train"]).all()
    assert arrays["y_test"].shape == (4_000,)
    assert abs(arrays["y_train"].mean() - 0.5) < 0.02


def test_a_seed_is_a_table(tmp_path: Path) -> None:
    one, same, other = (made(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["x_train"], other["x_train"])
    assert not np.array_equal(one["x_train"][:4000], one["x_test"]), "held-out rows are others"


@pytest.mark.parametrize(("columns", "classes"), [(1, 2), (3, 5)])
def test_other_shapes(tmp_path: Path, columns: int, classes: int) -> None:
    arrays = made(tmp_path / "a", replace(DATA, shape=(columns,), classes=classes, train=5_000))
    assert set(np.unique(arrays["y_train"])) == set(range(classes))


def test_the_class_hangs_on_several_columns_together(tmp_path: Path) -> None:
    """Neighbours in all columns agree far more often than chance; a table of noise would be at one half."""
    arrays = made(tmp_path / "a")
    x = arrays["x_train"] / arrays["x_train"].std(axis=0)
    hits = [
        arrays["y_train"][np.square(x - row).sum(axis=1).argsort()[:25]].mean().round() == label
        for row, label in zip(
            arrays["x_test"][:150] / arrays["x_train"].std(axis=0), arrays["y_test"], strict=False
        )
    ]
    assert np.mean(hits) > 0.6


def test_tables_come_from_the_cache(tmp_path: Path) -> None:
    folder, info = ensure_data(DATA, "w", tmp_path, "auto", 1, Silent())
    assert (info.kind, info.name) == ("procedural", "t")
    again, _ = ensure_data(DATA, "w", tmp_path, "auto", 1, Silent())
    assert again == folder
