"""Make tables that boosted trees can learn: rows of numbers whose class hangs on several of them together.

The columns are of the kinds that measured tables have: normal, skewed, and of few different values. A row's
class follows from products and thresholds of columns, with enough noise that no model is always right.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.progress import Task
from workloads.protocol import Data

# Part of a dataset's identity in the cache: raise it when what is made changes.
RECIPE = 1

_ROWS = 1 << 16  # a chunk's
_TERMS = 12  # products and thresholds that make up a class's score
_NOISE = 0.5  # of the score's own spread: a perfect model is right on some 85 % of two classes
_KINDS = 3  # of columns, in turn


class TableRecipe:
    """What one seed makes of one declaration of kind "table".

    Args:
        data: shape (columns,), classes and sizes; columns are float32.
        seed: the same seed makes the same bytes, on any number of cores.
    """

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed

    def write(self, folder: Path, bar: Task) -> None:
        """Write x_train.npy, y_train.npy, x_test.npy and y_test.npy; the bar moves on by their rows."""
        for part, (name, count) in enumerate((("train", self._data.train), ("test", self._data.test))):
            x = np.lib.format.open_memmap(
                folder / f"x_{name}.npy", mode="w+", dtype=np.float32, shape=(count, *self._data.shape)
            )
            starts = range(0, count, _ROWS)
            labels = []
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                chunks = pool.map(
                    lambda start, part=part, x=x: self._fill(x[start : start + _ROWS], part, start), starts
                )
                for made in chunks:
                    labels.append(made)
                    bar.advance(len(made))
            x.flush()
            np.save(folder / f"y_{name}.npy", np.concatenate(labels))

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence((self._seed, *stream))))

    def _fill(self, out: NDArray[np.float32], part: int, start: int) -> NDArray[np.integer]:
        """Fill in rows and return their labels."""
        random = self._random(1, part, start)
        x = random.standard_normal(out.shape, dtype=np.float32)
        scores = self._scores(x)
        scores += _NOISE * random.gumbel(size=scores.shape).astype(np.float32)
        out[...] = self._dressed(x)
        kind = np.uint8 if self._data.classes <= 256 else np.int32
        return np.asarray(scores.argmax(axis=1), dtype=kind)

    def _scores(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return float32[n, classes], each of spread about 1: sums of products and thresholds of columns."""
        columns = x.shape[1]
        scores = np.zeros((len(x), self._data.classes), dtype=np.float32)
        for label in range(self._data.classes):
            random = self._random(0, label)
            for term in range(_TERMS):
                first, second = random.permutation(columns)[:2] if columns > 1 else (0, 0)
                at = random.normal(0.0, 0.5)
                weight = np.float32(random.choice((-1.0, 1.0)) / np.sqrt(_TERMS))
                if term % 2:
                    # Less its mean, so that no class comes more often than another.
                    mean = -math.erf(at / math.sqrt(2.0))
                    scores[:, label] += weight * (np.sign(x[:, first] - np.float32(at)) - np.float32(mean))
                else:
                    scores[:, label] += weight * x[:, first] * x[:, second]
        return scores

    def _dressed(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Make columns of other kinds of the normal ones; a tree sees the same order of values as before."""
        for column in range(x.shape[1]):
            kind = column % _KINDS
            if kind == 1:
                np.exp(x[:, column] / 2, out=x[:, column])
            elif kind == 2:
                x[:, column] = np.round(x[:, column], 1)
        return x
