"""Make tables that boosted trees can learn: rows of numbers whose class hangs on several of them together.

The columns are of the kinds that measured tables have: normal, skewed, and of few different values. A row's
class follows from products and thresholds of columns, with enough noise that no model is always right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.procedural import ArrayRecipe
from workloads.protocol import Data

_TERMS = 12  # products and thresholds that make up a class's score
_NOISE = 0.5  # of the score's own spread: a perfect model is right on some 85 % of two classes
_KINDS = 3  # of columns, in turn


class TableRecipe(ArrayRecipe):
    """Tables of kind "table": shape (columns,), all of them float32."""

    version = 1
    chunk = 1 << 16

    def __init__(self, data: Data, seed: int) -> None:
        super().__init__(data, seed)
        self.dtype = np.dtype(np.float32)

    def labels(self, part: int, count: int) -> NDArray[np.integer]:
        """Return room for the labels: they follow from the rows."""
        return np.empty(count, self.label_type)

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Write rows, and the label of each."""
        random = self.random(1, *stream)
        rows = random.standard_normal(x.shape, dtype=np.float32)
        scores = self._scores(rows)
        scores += _NOISE * random.gumbel(size=scores.shape).astype(np.float32)
        x[...] = self._dressed(rows)
        y[...] = scores.argmax(axis=1)

    def _scores(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return float32[n, classes], each of spread about 1: sums of products and thresholds of columns."""
        columns = x.shape[1]
        scores = np.zeros((len(x), self.data.classes), dtype=np.float32)
        for label in range(self.data.classes):
            random = self.random(0, label)
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
