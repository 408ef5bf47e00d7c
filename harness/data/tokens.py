"""Make token sequences that a small network can learn to sort, as reviews of films are sorted.

Words come by Zipf's law; lengths are log-normal. One word in some twelve is an opinion: it speaks for one
class, most often, but not always, for the sample's own.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.data.procedural import balanced_labels
from harness.progress import Task
from workloads.protocol import FIRST_WORD, START, Data

# Part of a dataset's identity in the cache: raise it when what is made changes.
RECIPE = 1

# Of the 50,000 reviews of Maas et al. (2011): median 178 words, mean 239, shortest 11. A log-normal of that
# median and this spread has a mean of 233.
_MEDIAN, _SPREAD, _SHORTEST = 178.0, 0.73, 11
_CHUNK = 2048  # samples
# Chosen so that a perfect reader is right in nine cases of ten, as good models of the real reviews are.
_OPINIONS = 0.08  # share of all words
_HONEST = 0.45  # share of a sample's opinions that speak for its own class; the rest speak for any
# Opinions are neither the most frequent words nor rare ones.
_OPINION_RANKS = (50, 600)


class TokenRecipe:
    """What one seed makes of one declaration.

    Args:
        data: shape is (longest sequence,); vocabulary is the number of ids, those below FIRST_WORD among
            them. Longer sequences are cut, shorter ones end with 0.
        seed: the same seed makes the same bytes, on any number of cores.
    """

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed

    def write(self, folder: Path, bar: Task) -> None:
        """Write x_train.npy, y_train.npy, x_test.npy and y_test.npy; the bar moves on by their samples."""
        words = self._data.vocabulary - FIRST_WORD
        frequency = np.cumsum(1.0 / (np.arange(words) + 2.7))
        frequency /= frequency[-1]
        for part, (name, count) in enumerate((("train", self._data.train), ("test", self._data.test))):
            labels = balanced_labels(self._random(0, part), count, self._data.classes)
            np.save(folder / f"y_{name}.npy", labels)
            x = np.zeros((count, *self._data.shape), self._data.dtype)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                chunks = pool.map(
                    lambda start, part=part, labels=labels, x=x: self._fill(
                        x[start : start + _CHUNK], labels[start : start + _CHUNK], frequency, part, start
                    ),
                    range(0, count, _CHUNK),
                )
                for done in chunks:
                    bar.advance(done)
            np.save(folder / f"x_{name}.npy", x)

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence((self._seed, *stream))))

    def _fill(
        self,
        out: NDArray[np.generic],
        labels: NDArray[np.integer],
        frequency: NDArray[np.float64],
        part: int,
        start: int,
    ) -> int:
        (longest,), count, classes = self._data.shape, len(labels), self._data.classes
        random = self._random(1, part, start)
        lengths = np.maximum(random.lognormal(np.log(_MEDIAN), _SPREAD, count), _SHORTEST).astype(np.int64)
        ranks = np.searchsorted(frequency, random.random((count, longest)))
        opinion = random.random(ranks.shape) < _OPINIONS
        own = random.random(ranks.shape) < _HONEST
        # A word's class is its rank's remainder, so that all classes have words of all frequencies.
        speaks_for = np.where(own, labels[:, None], random.integers(classes, size=ranks.shape))
        low, high = (min(rank, len(frequency) // 2 + rank // 100) for rank in _OPINION_RANKS)
        opinions = low + classes * random.integers(max(1, (high - low) // classes), size=ranks.shape)
        ranks = np.where(opinion, opinions + speaks_for, ranks)
        # Beside opinions, words of the same ranks say nothing: they come as often in any class.
        tokens = np.minimum(ranks, len(frequency) - 1) + FIRST_WORD
        tokens[:, 0] = START
        tokens[np.arange(longest) >= lengths[:, None]] = 0
        out[...] = tokens.astype(out.dtype)
        return count
