"""Make datasets that a small network can learn, for hosts that cannot fetch the real ones.

Each class has a few smooth random pictures. A sample is one of them, shifted by up to two pixels, with
its own brightness, contrast and pixel noise: harder than telling the pictures apart, easier than nature.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.progress import Task
from workloads.protocol import Data

# Part of a dataset's identity in the cache: raise it when what is made changes.
RECIPE = 1

_CHUNK_BYTES = 32 << 20
_CELLS = 4  # a prototype's grid of random values, before it is made smooth
_SHIFT = 2  # pixels
_VARIANTS = 3  # pictures a class
# Against a prototype's own spread of 1: chosen so that a thousand steps of the published networks end
# between chance and perfection (tests/tensorflow, tests/test_datasets.py).
_NOISE = 1.0
_DISTRACTION = 0.7  # of another class's picture, mixed in
_CONTRAST = (0.7, 1.3)
_BRIGHTNESS = 0.5
_MEAN, _SPREAD = 0.5, 0.14  # of the whole range of values


class Recipe:
    """What one seed makes of one declaration.

    Args:
        data: shape, classes and dtype. Floating types lie between 0 and 1, integers between 0 and 255
            (127 for int8).
        seed: the same seed makes the same bytes, on any number of cores.
    """

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed
        self._shape = data.shape if len(data.shape) == 3 else (*_picture(data.shape), 1)

    def write(self, folder: Path, bar: Task) -> None:
        """Write x_train.npy, y_train.npy, x_test.npy and y_test.npy; the bar moves on by their samples."""
        prototypes = self._prototypes()
        for part, (name, count) in enumerate((("train", self._data.train), ("test", self._data.test))):
            labels = balanced_labels(self._random(0, part), count, self._data.classes)
            np.save(folder / f"y_{name}.npy", labels)
            x = np.lib.format.open_memmap(
                folder / f"x_{name}.npy",
                mode="w+",
                dtype=np.dtype(self._data.dtype),
                shape=(count, *self._data.shape),
            )
            step = max(1, _CHUNK_BYTES // (4 * int(np.prod(self._data.shape))))
            starts = range(0, count, step)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                chunks = pool.map(
                    lambda start, part=part, labels=labels, x=x, step=step: self._fill(
                        x[start : start + step], labels[start : start + step], prototypes, part, start
                    ),
                    starts,
                )
                for done in chunks:
                    bar.advance(done)
            x.flush()

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence((self._seed, *stream))))

    def _prototypes(self) -> NDArray[np.float32]:
        """Return float32[classes * variants, channels, height + margin, width + margin] of spread 1."""
        height, width, channels = self._shape
        count = self._data.classes * _VARIANTS
        margin_y, margin_x = _margins(self._shape)
        grid = self._random(1).standard_normal((count, channels, _CELLS, _CELLS), dtype=np.float32)
        rows = _interpolation(height + 2 * margin_y, _CELLS)
        columns = _interpolation(width + 2 * margin_x, _CELLS)
        smooth = (rows @ grid @ columns.T).astype(np.float32)
        smooth -= smooth.mean(axis=(1, 2, 3), keepdims=True)
        smooth /= smooth.std(axis=(1, 2, 3), keepdims=True) + np.float32(1e-6)
        return smooth

    def _fill(
        self,
        out: NDArray[np.generic],
        labels: NDArray[np.integer],
        prototypes: NDArray[np.float32],
        part: int,
        start: int,
    ) -> int:
        height, width, channels = self._shape
        count = len(labels)
        random = self._random(2, part, start)
        margin_y, margin_x = _margins(self._shape)
        variant = labels.astype(np.int64) * _VARIANTS + random.integers(_VARIANTS, size=count)
        dy = random.integers(2 * margin_y + 1, size=count)
        dx = random.integers(2 * margin_x + 1, size=count)
        windows = np.lib.stride_tricks.sliding_window_view(prototypes, (height, width), axis=(2, 3))
        x = windows[variant, :, dy, dx]
        other = random.integers(len(prototypes), size=count)
        x += np.float32(_DISTRACTION) * windows[other, :, dy, dx]
        each = (count, 1, 1, 1)
        x *= random.uniform(*_CONTRAST, size=each).astype(np.float32)
        x += _BRIGHTNESS * random.standard_normal(each, dtype=np.float32)
        x += np.float32(_NOISE) * random.standard_normal((count, channels, height, width), dtype=np.float32)
        x *= np.float32(_SPREAD)
        x += np.float32(_MEAN)
        np.clip(x, 0.0, 1.0, out=x)
        if out.dtype.kind in "iu":
            x *= np.float32(127 if out.dtype == np.int8 else 255)
            np.rint(x, out=x)
        out[...] = x.transpose(0, 2, 3, 1).reshape(out.shape).astype(out.dtype)
        return count


def balanced_labels(random: np.random.Generator, count: int, classes: int) -> NDArray[np.integer]:
    """Return labels, as many of each class as of any other, in random order; uint8 up to 256 classes."""
    kind = np.uint8 if classes <= 256 else np.int32
    return random.permutation((np.arange(count) % classes).astype(kind))


def _picture(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return a height and width for a shape that is not a picture with channels."""
    if len(shape) == 2:
        return shape[0], shape[1]
    return 1, int(np.prod(shape))


def _margins(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return by how many pixels samples move: less on small shapes, none on single rows."""
    return min(_SHIFT, shape[0] // 8), min(_SHIFT, shape[1] // 8) if shape[0] > 1 else 0


def _interpolation(size: int, cells: int) -> NDArray[np.float32]:
    """Return float32[size, cells]: weights that stretch `cells` values smoothly over `size` places."""
    places = np.linspace(0, cells - 1, size)
    distance = np.abs(places[:, None] - np.arange(cells))
    weights = np.where(distance < 1, 0.5 + 0.5 * np.cos(np.pi * np.minimum(distance, 1)), 0.0)
    return weights.astype(np.float32)
