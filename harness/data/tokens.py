"""Generate token sequences that a small network can classify like film reviews.

Word frequencies follow Zipf's law; lengths are log-normal. One word in twelve is an opinion: it indicates a
class, usually but not always the sample's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.procedural import ArrayRecipe
from harness.model.workload import Data
from workloads.protocol import FIRST_WORD, START

# Reviews of Maas et al. (2011): median 178 words, mean 239, shortest 11.
_MEDIAN, _SPREAD, _SHORTEST = 178.0, 0.73, 11
# With these shares a perfect model is right nine times out of ten, like good models of the real reviews.
_OPINION_SHARE = 0.08  # of all words
_OWN_CLASS_SHARE = 0.45  # of a sample's opinions; the others indicate a random class
# Opinions are neither the most frequent words nor rare ones.
_OPINION_RANKS = (50, 600)


class TokenRecipe(ArrayRecipe):
    """Token sequences of shape (longest,), padded with 0; `vocabulary` includes the ids below FIRST_WORD."""

    version = 1
    chunk = 2048

    def __init__(self, data: Data, seed: int) -> None:
        super().__init__(data, seed)
        frequency = np.cumsum(1.0 / (np.arange(data.vocabulary - FIRST_WORD) + 2.7))
        self._frequency = frequency / frequency[-1]

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Draw each sample's words."""
        (longest,), count, classes = self.data.shape, len(y), self.data.classes
        frequency = self._frequency
        random = self.random(1, *stream)
        lengths = np.maximum(random.lognormal(np.log(_MEDIAN), _SPREAD, count), _SHORTEST).astype(np.int64)
        ranks = np.searchsorted(frequency, random.random((count, longest)))
        is_opinion = random.random(ranks.shape) < _OPINION_SHARE
        is_own = random.random(ranks.shape) < _OWN_CLASS_SHARE
        # A word's class is its rank modulo the number of classes: each class has words of all frequencies.
        indicated = np.where(is_own, y[:, None], random.integers(classes, size=ranks.shape))
        low, high = (min(rank, len(frequency) // 2 + rank // 100) for rank in _OPINION_RANKS)
        opinions = low + classes * random.integers(max(1, (high - low) // classes), size=ranks.shape)
        # The same words also occur outside opinions, equally often in all classes.
        ranks = np.where(is_opinion, opinions + indicated, ranks)
        tokens = np.minimum(ranks, len(frequency) - 1) + FIRST_WORD
        tokens[:, 0] = START
        tokens[np.arange(longest) >= lengths[:, None]] = 0
        x[...] = tokens.astype(x.dtype)
