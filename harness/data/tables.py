"""Generate tables for boosted trees, with normal, skewed and rounded columns.

A row's class depends on products and thresholds of columns, with enough noise that no model is always right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.procedural import ArrayRecipe

_TERMS = 12  # products and thresholds in a class's score
# Relative to the spread of scores: a perfect model of two classes is right about 85 % of the time.
_NOISE = 0.5
_KINDS = 3  # kinds of columns, alternating


class TableRecipe(ArrayRecipe):
    """Data of kind "table": shape (columns,), all float32."""

    version = 1
    chunk = 1 << 16

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Fill `x` with rows and `y` with their labels, which are computed from the rows."""
        random = self.random(1, *stream)
        rows = random.standard_normal(x.shape, dtype=np.float32)
        scores = self._scores(rows)
        scores += _NOISE * random.gumbel(size=scores.shape).astype(np.float32)
        y[...] = scores.argmax(axis=1)
        # Monotonic transformations, which do not affect trees.
        np.exp(rows[:, 1::_KINDS] / 2, out=rows[:, 1::_KINDS])
        np.round(rows[:, 2::_KINDS], 1, out=rows[:, 2::_KINDS])
        x[...] = rows

    def _scores(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return float32[n, classes] with a spread of about 1: sums of products and thresholds of columns."""
        columns = x.shape[1]
        scores = np.zeros((len(x), self.data.classes), dtype=np.float32)
        for label in range(self.data.classes):
            random = self.random(0, label)
            for term in range(_TERMS):
                first, second = random.permutation(columns)[:2] if columns > 1 else (0, 0)
                threshold = random.normal(0.0, 0.5)
                weight = np.float32(random.choice((-1.0, 1.0)) / np.sqrt(_TERMS))
                if term % 2:
                    # Subtracting the mean keeps the classes equally frequent.
                    mean = -math.erf(threshold / math.sqrt(2.0))
                    sign = np.sign(x[:, first] - np.float32(threshold))
                    scores[:, label] += weight * (sign - np.float32(mean))
                else:
                    scores[:, label] += weight * x[:, first] * x[:, second]
        return scores
