"""Generate datasets that a small network can learn, as substitutes for real ones.

Each class has a few smooth random pictures. A sample is one of these, shifted by up to two pixels, with
random brightness, contrast and noise, so that a model must generalize.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.workload import Data
from harness.progress import Task

_CHUNK_BYTES = 32 << 20
_CELLS = 4  # side of a prototype's grid of random values, before smoothing
_SHIFT = 2  # pixels
_VARIANTS = 3  # prototypes per class
# Relative to a prototype's standard deviation of 1. After a thousand steps the published networks are above
# chance and below 100 % accuracy (tests/tensorflow).
_NOISE = 1.0
_DISTRACTION = 0.7  # amplitude of a second prototype that is mixed in
_CONTRAST = (0.7, 1.3)
_BRIGHTNESS = 0.5
_MEAN, _SPREAD = 0.5, 0.14  # mean and standard deviation, relative to the range of values


def random_stream(seed: int, *stream: int) -> np.random.Generator:
    """Return the generator of one of the seed's independent streams."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *stream))))


class ArrayRecipe:
    """Arrays for a declaration and a seed; subclasses fill chunks of samples.

    The same seed gives the same bytes on any number of cores.
    """

    version: int  # increment when the output changes
    chunk: int  # samples per job

    def __init__(self, data: Data, seed: int) -> None:
        self.data = data
        self._seed = seed

    def write(self, folder: Path, bar: Task) -> None:
        """Write x_train.npy, y_train.npy, x_test.npy and y_test.npy; the bar counts samples."""
        dtype = "float32" if self.data.kind == "table" else self.data.dtype
        for part, (name, count) in enumerate((("train", self.data.train), ("test", self.data.test))):
            y = self.labels(part, count)
            self._write_samples(folder / f"x_{name}.npy", np.dtype(dtype), y, part, bar)
            np.save(folder / f"y_{name}.npy", y)

    def _write_samples(
        self, path: Path, dtype: np.dtype[Any], y: NDArray[np.integer], part: int, bar: Task
    ) -> None:
        """Fill and write samples of the labels `y`, which may change."""
        sample_bytes = math.prod(self.data.shape) * dtype.itemsize
        shape = (len(y), *self.data.shape)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            # Fails at once if the disk is too small. Not mapped into memory, where a full disk kills the process.
            os.posix_fallocate(file.fileno(), 0, begin + len(y) * sample_bytes)

        def write(start: int) -> int:
            labels = y[start : start + self.chunk]
            x = np.empty((len(labels), *self.data.shape), dtype)
            self.fill(x, labels, part, start)
            with path.open("r+b") as file:
                file.seek(begin + start * sample_bytes)
                file.write(x.data)
            return len(labels)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for count in pool.map(write, range(0, len(y), self.chunk)):
                bar.advance(count)

    def labels(self, part: int, count: int) -> NDArray[np.integer]:
        """Return equally frequent labels in random order: uint8 up to 256 classes, else int32."""
        label_type = np.uint8 if self.data.classes <= 256 else np.int32
        return self.random(0, part).permutation((np.arange(count) % self.data.classes).astype(label_type))

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Fill `x` with samples of the labels `y`, using the random numbers of `stream`."""
        raise NotImplementedError

    def random(self, *stream: int) -> np.random.Generator:
        """Return the generator of one of the seed's streams."""
        return random_stream(self._seed, *stream)


class PictureRecipe(ArrayRecipe):
    """Samples of any shape: floats from 0 to 1, integers from 0 to 255 (127 for int8)."""

    version = 1

    def __init__(self, data: Data, seed: int) -> None:
        super().__init__(data, seed)
        # Two-dimensional samples are pictures with one channel; others are a single row of pixels.
        rows = data.shape[0] if len(data.shape) == 2 else 1
        self._shape = data.shape if len(data.shape) == 3 else (rows, math.prod(data.shape) // rows, 1)
        self.chunk = max(1, _CHUNK_BYTES // (4 * math.prod(data.shape)))
        self._windows = np.lib.stride_tricks.sliding_window_view(
            self._prototypes(), self._shape[:2], axis=(2, 3)
        )

    def _prototypes(self) -> NDArray[np.float32]:
        """Return float32[classes * variants, channels, height + margin, width + margin], normalized."""
        height, width, channels = self._shape
        count = self.data.classes * _VARIANTS
        margin_y, margin_x = _margins(self._shape)
        grid = self.random(1).standard_normal((count, channels, _CELLS, _CELLS), dtype=np.float32)
        rows = _interpolation(height + 2 * margin_y, _CELLS)
        columns = _interpolation(width + 2 * margin_x, _CELLS)
        smooth = (rows @ grid @ columns.T).astype(np.float32)
        smooth -= smooth.mean(axis=(1, 2, 3), keepdims=True)
        smooth /= smooth.std(axis=(1, 2, 3), keepdims=True) + np.float32(1e-6)
        return smooth

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Mix a prototype of the class, a fainter one of any class, and noise."""
        height, width, channels = self._shape
        count = len(y)
        random = self.random(2, *stream)
        margin_y, margin_x = _margins(self._shape)
        variant = y.astype(np.int64) * _VARIANTS + random.integers(_VARIANTS, size=count)
        dy = random.integers(2 * margin_y + 1, size=count)
        dx = random.integers(2 * margin_x + 1, size=count)
        values = self._windows[variant, :, dy, dx]
        other = random.integers(len(self._windows), size=count)
        values += np.float32(_DISTRACTION) * self._windows[other, :, dy, dx]
        per_sample = (count, 1, 1, 1)
        values *= random.uniform(*_CONTRAST, size=per_sample).astype(np.float32)
        values += _BRIGHTNESS * random.standard_normal(per_sample, dtype=np.float32)
        values += np.float32(_NOISE) * random.standard_normal(
            (count, channels, height, width), dtype=np.float32
        )
        values *= np.float32(_SPREAD)
        values += np.float32(_MEAN)
        np.clip(values, 0.0, 1.0, out=values)
        if x.dtype.kind in "iu":
            values *= np.float32(127 if x.dtype == np.int8 else 255)
            np.rint(values, out=values)
        x[...] = values.transpose(0, 2, 3, 1).reshape(x.shape).astype(x.dtype)


def _margins(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the largest vertical and horizontal shift in pixels: smaller for small pictures."""
    return min(_SHIFT, shape[0] // 8), min(_SHIFT, shape[1] // 8) if shape[0] > 1 else 0


def _interpolation(size: int, cells: int) -> NDArray[np.float32]:
    """Return float32[size, cells]: weights that interpolate `cells` values smoothly to `size`."""
    positions = np.linspace(0, cells - 1, size)
    distance = np.abs(positions[:, None] - np.arange(cells))
    weights = np.where(distance < 1, 0.5 + 0.5 * np.cos(np.pi * np.minimum(distance, 1)), 0.0)
    return weights.astype(np.float32)
