"""Make trees of JPEG files that a small network can learn and that cost as much to read as photographs.

`<part>/<class>/<number>.jpg`, as Keras' flow_from_directory wants them. Sizes in pixels and bytes follow the
cats-and-dogs archive: see SIDES. Each class has a few blotchy coats; a picture is a window of one of them,
mirrored or not, with a fainter one of any class over it, its own brightness and contrast, and grain.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from harness.data.procedural import random_stream
from harness.progress import Task
from workloads.protocol import Data

PARTS = ("train", "test")
# Of cats-and-dogs (Asirra): mean picture 404 x 360 pixels, half of them with a longer side of 499 or 500,
# hardly any longer, and 31 KB a file. Longer sides in units of 500, with their weights:
SIDES = ((1.0, 0.55), (0.92, 0.1), (0.75, 0.15), (0.55, 0.14), (0.3, 0.06))
_LONGEST = 500 / 404  # of the declared mean width
# Width over height, with weights: pictures lie more often than they stand.
ASPECTS = ((4 / 3, 0.40), (1.12, 0.16), (1.5, 0.10), (1.0, 0.10), (0.85, 0.10), (3 / 4, 0.14))
_QUALITY = 84

_VARIANTS = 3  # coats a class
_CELLS = 14  # a coat's grid of random values; a window sees _SEEN of them
_SEEN = 10
_DISTRACTION = 0.4
_CONTRAST = (0.6, 1.3)
_BRIGHTNESS = 18.0
_MEAN, _SPREAD = 120.0, 38.0
_GRAIN = 6.0  # of pixels, standard deviation; what makes files as large as photographs'
_GRAIN_ROOM = 400  # pixels by which the tile of noise is larger than a picture; windows of it are cheap


class JpegRecipe:
    """What one seed makes of one declaration.

    Args:
        data: `shape` is the mean picture: height, width and 3 channels.
        seed: the same seed makes the same bytes, on any number of cores.
    """

    version = 2  # part of a dataset's identity in the cache: raise it when what is made changes

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed

    def write(self, folder: Path, bar: Task) -> None:
        """Write the tree below `folder`; the bar moves on by pictures."""
        names = _class_names(self._data)
        for part in PARTS:
            for name in names:
                (folder / part / name).mkdir(parents=True)
        coats, grain = self._coats(), self._grain()

        def make(part: int, number: int) -> None:
            label = number % len(names)
            path = folder / PARTS[part] / names[label] / f"{number // len(names):05d}.jpg"
            picture = self._picture(random_stream(self._seed, 3, part, number), label, coats, grain)
            picture.save(path, "JPEG", quality=_QUALITY)

        counts = enumerate((self._data.train, self._data.test))
        pictures = [(part, number) for part, count in counts for number in range(count)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # Pillow lets go of Python's lock while it scales and encodes, so that threads are enough.
            for _ in pool.map(make, *zip(*pictures, strict=True)):
                bar.advance(1)

    def _coats(self) -> NDArray[np.float32]:
        """Return float32[classes * variants, cells, cells, 3] of spread 1."""
        count = self._data.classes * _VARIANTS
        grid = random_stream(self._seed, 1).standard_normal((count, _CELLS, _CELLS, 3), dtype=np.float32)
        grid /= grid.std(axis=(1, 2, 3), keepdims=True)
        return grid

    def _grain(self) -> Image.Image:
        """Return noise around 128, coarser than single pixels, as a camera's is after its own processing."""
        side = round(self._longest) + _GRAIN_ROOM
        fine = random_stream(self._seed, 2).standard_normal((side, side), dtype=np.float32)
        coarse = (fine + np.roll(fine, 1, 0) + np.roll(fine, 1, 1) + np.roll(fine, 1, (0, 1))) / 2
        pixels = np.clip(128.0 + _GRAIN * coarse, 0, 255).astype(np.uint8)
        return Image.fromarray(pixels).convert("RGB")

    def _picture(
        self, random: np.random.Generator, label: int, coats: NDArray[np.float32], grain: Image.Image
    ) -> Image.Image:
        width, height = self._size(random)
        rows, columns, other_rows, other_columns = random.integers(_CELLS - _SEEN + 1, size=4)
        own = coats[label * _VARIANTS + random.integers(_VARIANTS)]
        other = coats[random.integers(len(coats))]
        small = own[rows : rows + _SEEN, columns : columns + _SEEN]
        small = small[:, :: 1 if random.random() < 0.5 else -1]
        small = (
            small
            + np.float32(_DISTRACTION)
            * (other[other_rows : other_rows + _SEEN, other_columns : other_columns + _SEEN])
        )
        scale = np.float32(_SPREAD * random.uniform(*_CONTRAST))
        offset = np.float32(_MEAN + _BRIGHTNESS * random.standard_normal())
        pixels = np.clip(small * scale + offset, 0, 255).astype(np.uint8)
        image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
        left, top = (
            int(random.integers(room - side)) for side, room in zip((width, height), grain.size, strict=True)
        )
        noise = grain.crop((left, top, left + width, top + height))
        return ImageChops.add(image, noise, scale=1.0, offset=-128)

    @property
    def _longest(self) -> float:
        return _LONGEST * self._data.shape[1]

    def _size(self, random: np.random.Generator) -> tuple[int, int]:
        """Return a width and a height from the distribution, at least 8 pixels each."""
        longer = self._longest * _drawn(SIDES, random) * random.uniform(0.97, 1.0)
        aspect = _drawn(ASPECTS, random)
        width, height = (longer, longer / aspect) if aspect >= 1 else (longer * aspect, longer)
        return max(8, round(width)), max(8, round(height))


def _drawn(choices: tuple[tuple[float, float], ...], random: np.random.Generator) -> float:
    """Draw a value by the weights that stand behind the values."""
    values, weights = zip(*choices, strict=True)
    return float(random.choice(values, p=weights))


def _class_names(data: Data) -> tuple[str, ...]:
    """Return the names of the classes' folders, in the order of their labels, which is the alphabet's."""
    width = len(str(data.classes - 1))
    return data.class_names or tuple(f"class-{number:0{width}d}" for number in range(data.classes))
