"""Generate JPEG trees, `<part>/<class>/<number>.jpg`, as expensive to read as the cats-and-dogs photographs.

Each picture is a small one from generated_arrays.py, randomly mirrored, scaled up, with grain added.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops

from harness.data.generated_arrays import PictureRecipe, random_stream
from harness.model.workload import Data
from harness.progress import Task

PARTS = ("train", "test")
# Cats-and-dogs (Asirra): 404 x 360 pixels on average; the longer side is 499 or 500 in half of them and
# rarely more; 31 KB per file. Longer sides in units of 500, and their weights:
SIDES = ((1.0, 0.55), (0.92, 0.1), (0.75, 0.15), (0.55, 0.14), (0.3, 0.06))
_LONGEST = 500 / 404  # longest side over the declared mean width
# Width over height, and weights.
ASPECTS = ((4 / 3, 0.40), (1.12, 0.16), (1.5, 0.10), (1.0, 0.10), (0.85, 0.10), (3 / 4, 0.14))
_QUALITY = 84
_SMALL = (16, 16, 3)  # pixels before scaling up
_GRAIN = 5.7  # standard deviation in pixel values; determines the file size
_GRAIN_MARGIN = 400  # pixels by which the noise tile exceeds a picture; cropping it is cheap


class JpegRecipe:
    """JPEG files for a declaration and a seed; `data.shape` is the mean picture shape.

    The same seed gives the same bytes on any number of cores.
    """

    version = 3  # increment when the output changes

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed
        self._longest = _LONGEST * data.shape[1]
        self._small = PictureRecipe(replace(data, shape=_SMALL), seed)

    def write(self, folder: Path, bar: Task) -> None:
        """Write the tree; the bar counts pictures."""
        names = _class_names(self._data)
        for part in PARTS:
            for name in names:
                (folder / part / name).mkdir(parents=True)
        grain = self._grain()

        def make(part: int, number: int) -> None:
            label = number % len(names)
            path = folder / PARTS[part] / names[label] / f"{number // len(names):05d}.jpg"
            self._picture(part, number, label, grain).save(path, "JPEG", quality=_QUALITY)

        counts = enumerate((self._data.train, self._data.test))
        pictures = [(part, number) for part, count in counts for number in range(count)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # Threads suffice: Pillow releases the GIL.
            for _ in pool.map(make, *zip(*pictures, strict=True)):
                bar.advance(1)

    def _grain(self) -> Image.Image:
        """Return noise around 128, coarser than single pixels, like camera noise."""
        side = round(self._longest) + _GRAIN_MARGIN
        fine = random_stream(self._seed, 3).standard_normal((side, side), dtype=np.float32)
        coarse = (fine + np.roll(fine, 1, 0) + np.roll(fine, 1, 1) + np.roll(fine, 1, (0, 1))) / 2
        pixels = np.clip(128.0 + _GRAIN * coarse, 0, 255).astype(np.uint8)
        return Image.fromarray(pixels).convert("RGB")

    def _picture(self, part: int, number: int, label: int, grain: Image.Image) -> Image.Image:
        small = np.empty((1, *_SMALL), np.uint8)
        self._small.fill(small, np.array([label]), part, number)
        random = random_stream(self._seed, 4, part, number)
        size = self._size(random)
        image = Image.fromarray(small[0, :, :: random.choice((-1, 1))]).resize(size, Image.Resampling.BICUBIC)
        left, top = (int(random.integers(limit - side)) for side, limit in zip(size, grain.size, strict=True))
        noise = grain.crop((left, top, left + size[0], top + size[1]))
        return ImageChops.add(image, noise, scale=1.0, offset=-128)

    def _size(self, random: np.random.Generator) -> tuple[int, int]:
        """Draw width and height, at least 8 pixels each."""
        longer = self._longest * _draw(SIDES, random) * random.uniform(0.97, 1.0)
        aspect = _draw(ASPECTS, random)
        width, height = (longer, longer / aspect) if aspect >= 1 else (longer * aspect, longer)
        return max(8, round(width)), max(8, round(height))


def _draw(choices: tuple[tuple[float, float], ...], random: np.random.Generator) -> float:
    """Draw a value from (value, weight) pairs."""
    values, weights = zip(*choices, strict=True)
    return float(random.choice(values, p=weights))


def _class_names(data: Data) -> tuple[str, ...]:
    """Return the class folder names in label order, which is alphabetical."""
    width = len(str(data.classes - 1))
    return data.class_names or tuple(f"class-{number:0{width}d}" for number in range(data.classes))
