"""Make token sequences that a small network can classify like film reviews.

Words follow Zipf's law; lengths are log-normal. One word in twelve is an opinion: it indicates a class,
usually but not always the sample's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.procedural import ArrayRecipe
from workloads.protocol import FIRST_WORD, START, Data

# The reviews of Maas et al. (2011): median 178 words, mean 239, shortest 11.
_MEDIAN, _SPREAD, _SHORTEST = 178.0, 0.73, 11
# A perfect model is right in nine cases of ten, like good models of the real reviews.
_OPINIONS = 0.08  # share of all words
_HONEST = 0.45  # share of a sample's opinions that speak for its own class; the rest speak for any
# Opinions are neither the most frequent words nor rare ones.
_OPINION_RANKS = (50, 600)


class TokenRecipe(ArrayRecipe):
    """Token sequences of shape (longest,), padded with 0; `vocabulary` counts ids below FIRST_WORD too."""

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
        opinion = random.random(ranks.shape) < _OPINIONS
        own = random.random(ranks.shape) < _HONEST
        # A word's class is its rank's remainder, so that all classes have words of all frequencies.
        speaks_for = np.where(own, y[:, None], random.integers(classes, size=ranks.shape))
        low, high = (min(rank, len(frequency) // 2 + rank // 100) for rank in _OPINION_RANKS)
        opinions = low + classes * random.integers(max(1, (high - low) // classes), size=ranks.shape)
        ranks = np.where(opinion, opinions + speaks_for, ranks)
        # Beside opinions, words of the same ranks say nothing: they come as often in any class.
        tokens = np.minimum(ranks, len(frequency) - 1) + FIRST_WORD
        tokens[:, 0] = START
        tokens[np.arange(longest) >= lengths[:, None]] = 0
        x[...] = tokens.astype(x.dtype)
