"""Generate data sets that a small network can learn, as substitutes for real ones.

They are arrays, tables, token sequences, JPEG files as expensive to read as the photographs of cats and dogs, and
clicks in TFRecord files.

The same seed gives the same bytes on any number of cores.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from harness.model.workload import Data
from harness.progress import Task
from workloads.protocol import FIRST_WORD, START

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


def random_stream(seed: int, *stream: int) -> np.random.Generator:
    """Return the generator of one of the seed's independent streams."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *stream))))


class ArrayRecipe:
    """Arrays for a declaration and a seed; subclasses fill chunks of samples."""

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
    """Samples of any shape: floats from 0 to 1, integers from 0 to 255 (127 for int8).

    Each class has a few smooth random pictures. A sample is one of these, shifted by up to two pixels, with random
    brightness, contrast and noise, so that a model must generalize.
    """

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


_TABLE_TERMS = 12  # products and thresholds in a class's score
# Relative to the spread of scores: a perfect model of two classes is right about 85 % of the time.
_TABLE_NOISE = 0.5
_COLUMN_KINDS = 3  # kinds of columns, alternating


class TableRecipe(ArrayRecipe):
    """Data of kind "table": shape (columns,), all float32; normal, skewed and rounded columns for boosted trees.

    A row's class depends on products and thresholds of columns, with enough noise that no model is always right.
    """

    version = 1
    chunk = 1 << 16

    def fill(self, x: NDArray[Any], y: NDArray[np.integer], *stream: int) -> None:
        """Fill `x` with rows and `y` with their labels, which are computed from the rows."""
        random = self.random(1, *stream)
        rows = random.standard_normal(x.shape, dtype=np.float32)
        scores = self._scores(rows)
        scores += _TABLE_NOISE * random.gumbel(size=scores.shape).astype(np.float32)
        y[...] = scores.argmax(axis=1)
        # Monotonic transformations, which do not affect trees.
        np.exp(rows[:, 1::_COLUMN_KINDS] / 2, out=rows[:, 1::_COLUMN_KINDS])
        np.round(rows[:, 2::_COLUMN_KINDS], 1, out=rows[:, 2::_COLUMN_KINDS])
        x[...] = rows

    def _scores(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return float32[n, classes] with a spread of about 1: sums of products and thresholds of columns."""
        columns = x.shape[1]
        scores = np.zeros((len(x), self.data.classes), dtype=np.float32)
        for label in range(self.data.classes):
            random = self.random(0, label)
            for term in range(_TABLE_TERMS):
                first, second = random.permutation(columns)[:2] if columns > 1 else (0, 0)
                threshold = random.normal(0.0, 0.5)
                weight = np.float32(random.choice((-1.0, 1.0)) / np.sqrt(_TABLE_TERMS))
                if term % 2:
                    # Subtracting the mean keeps the classes equally frequent.
                    mean = -math.erf(threshold / math.sqrt(2.0))
                    sign = np.sign(x[:, first] - np.float32(threshold))
                    scores[:, label] += weight * (sign - np.float32(mean))
                else:
                    scores[:, label] += weight * x[:, first] * x[:, second]
        return scores


# Reviews of Maas et al. (2011): median 178 words, mean 239, shortest 11.
_WORDS, _WORDS_SPREAD, _FEWEST_WORDS = 178.0, 0.73, 11
# With these shares a perfect model is right nine times out of ten, like good models of the real reviews.
_OPINION_SHARE = 0.08  # of all words
_OWN_CLASS_SHARE = 0.45  # of a sample's opinions; the others indicate a random class
# Opinions are neither the most frequent words nor rare ones.
_OPINION_RANKS = (50, 600)


class TokenRecipe(ArrayRecipe):
    """Token sequences of shape (longest,), padded with 0; `vocabulary` includes the ids below FIRST_WORD.

    They can be classified like film reviews. Word frequencies follow Zipf's law; lengths are log-normal. One word in
    twelve is an opinion: it indicates a class, usually but not always the sample's own.
    """

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
        lengths = np.maximum(random.lognormal(np.log(_WORDS), _WORDS_SPREAD, count), _FEWEST_WORDS).astype(
            np.int64
        )
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


class JpegRecipe:
    """JPEG files for a declaration and a seed: `<part>/<class>/<number>.jpg`; `data.shape` is the mean picture shape.

    Each picture is a small one of a PictureRecipe, randomly mirrored, scaled up, with grain added.
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


# Rows of the tables of DLRM (Naumov et al. 2019) for Criteo's 1 TB click logs in MLPerf Training, which limits
# a table to 40 million.
CARDINALITIES = (
    39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346, 10,
    2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
)  # fmt: skip
_SHARD = 1 << 16  # samples of a file
# Standard deviation of a sample's log-odds: a perfect model is right about 83 % of the time.
_ODDS = 2.5
_PAIRS = 6  # pairs of features whose product counts
_MIXERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64 (Steele et al. 2014)
_SCRAMBLE = 2_654_435_761  # a prime above all cardinalities


class ClicksRecipe:
    """TFRecord files `<part>-<number>.tfrecord` of tf.train.Example; `data.shape` is (numbers, categories) of a sample.

    "label" is 0 or 1, "dense" has positive float32 with a long tail, "ids" int64 below CARDINALITIES. Ids follow
    Zipf's law; frequent ones are spread over the range, as by hashing. The log-odds of a click are a sum of a score of
    each id, of products of two such scores, and of logarithms of the numbers.
    """

    version = 1  # increment when the output changes

    def __init__(self, data: Data, seed: int) -> None:
        self._data = data
        self._seed = seed
        numbers, categories = data.shape
        self._sizes = np.array(CARDINALITIES[:categories], np.uint64)
        random = random_stream(seed, 5)
        self._weights = random.standard_normal(numbers)
        self._pairs = random.integers(categories, size=(_PAIRS, 2))

    def write(self, folder: Path, bar: Task) -> None:
        """Write the files; the bar counts samples."""

        def make(part: int, number: int) -> int:
            count = min(_SHARD, (self._data.train, self._data.test)[part] - number * _SHARD)
            path = folder / f"{PARTS[part]}-{number:05d}.tfrecord"
            path.write_bytes(_records(*self._samples(part, number, count)))
            return count

        counts = enumerate((self._data.train, self._data.test))
        files = [(part, number) for part, count in counts for number in range(-(-count // _SHARD))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for count in pool.map(make, *zip(*files, strict=True)):
                bar.advance(count)

    def _samples(
        self, part: int, number: int, count: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint32]]:
        """Return labels [count], numbers [count, numbers] and ids [count, categories] of one file."""
        random = random_stream(self._seed, 6, part, number)
        logarithms = random.standard_normal((count, len(self._weights)))
        # The inverse of Zipf's cumulative distribution, whose exponent is 1.
        ranks = np.power(self._sizes + 1.0, random.random((count, len(self._sizes)))).astype(np.uint64) - 1
        ids = np.minimum(ranks, self._sizes - 1) * np.uint64(_SCRAMBLE) % self._sizes
        scores = self._scores(ids)
        odds = scores.sum(1) + logarithms @ self._weights
        odds += 2.0 * (scores[:, self._pairs[:, 0]] * scores[:, self._pairs[:, 1]]).sum(1)
        # Each score and logarithm has a variance of 1, and so has each product.
        odds *= _ODDS / math.sqrt(len(self._sizes) + float(self._weights @ self._weights) + 4.0 * _PAIRS)
        labels = (random.random(count) < 1.0 / (1.0 + np.exp(-odds))).astype(np.uint8)
        return labels, np.exp(logarithms).astype(np.float32), ids.astype(np.uint32)

    def _scores(self, ids: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return a number for each id with mean 0 and variance 1, uniformly distributed over ids."""
        first, *others = (np.uint64(each) for each in _MIXERS)
        columns = np.arange(1, ids.shape[1] + 1, dtype=np.uint64) + np.uint64(self._seed % (1 << 32) << 32)
        mixed = (ids + columns * np.uint64(1 << 20 | 1)) * first
        for shift, factor in zip((30, 27), others, strict=True):
            mixed = (mixed ^ mixed >> np.uint64(shift)) * factor
        mixed ^= mixed >> np.uint64(31)
        return (mixed / 2.0**63 - 1.0) * math.sqrt(3.0)


def _records(labels: NDArray[np.uint8], dense: NDArray[np.float32], ids: NDArray[np.uint32]) -> bytes:
    """Return a TFRecord file of one tf.train.Example for each sample; all have the same length.

    A record is its length, the length's checksum, its bytes, and their checksum (TensorFlow's
    core/lib/io/record_writer.h).
    """
    count = len(labels)
    # Four bytes of seven bits for each id, also where fewer would do.
    parts = [(ids >> 7 * place & 0x7F | (0x80 if place < 3 else 0)).astype(np.uint8) for place in range(4)]
    fields = {
        ("label", 3): labels[:, None],
        ("dense", 2): dense.astype("<f4").view(np.uint8).reshape(count, -1),
        ("ids", 3): np.stack(parts, -1).reshape(count, -1),
    }
    pieces: list[NDArray[np.uint8]] = []
    for (name, kind), values in fields.items():
        # From the inside: packed values, a list of its kind, the feature, and its entry in the map.
        head = b""
        for number in (1, kind, 2):
            head = _prefix(number, len(head) + values.shape[1]) + head
        head = _prefix(1, len(name)) + name.encode() + head
        head = _prefix(1, len(head) + values.shape[1]) + head
        pieces += [np.broadcast_to(np.frombuffer(head, np.uint8), (count, len(head))), values]
    length = sum(each.shape[1] for each in pieces)
    head = _prefix(1, length)
    example = np.concatenate([np.broadcast_to(np.frombuffer(head, np.uint8), (count, len(head))), *pieces], 1)
    size = np.frombuffer(np.uint64(example.shape[1]).astype("<u8").tobytes(), np.uint8)[None]
    before = np.concatenate([size, checksums(size)], 1)
    return np.concatenate([np.repeat(before, count, 0), example, checksums(example)], 1).tobytes()


def _prefix(number: int, length: int) -> bytes:
    """Return what precedes a field of Protocol Buffers that has a length: its number and the length."""
    result = bytearray([number << 3 | 2])
    while length > 0x7F:
        result.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*result, length])


def _crc_table() -> NDArray[np.uint32]:
    """Return the table of CRC-32C (Castagnoli), RFC 3720, for one byte at a time."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    return table


_CRC = _crc_table()


def checksums(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the masked checksum of each row, [rows, 4], as in TensorFlow's core/lib/hash/crc32c.h."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = _CRC[(crc ^ column) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
    crc ^= np.uint32(0xFFFFFFFF)
    masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
    return masked.astype("<u4").view(np.uint8).reshape(-1, 4)


def _draw(choices: tuple[tuple[float, float], ...], random: np.random.Generator) -> float:
    """Draw a value from (value, weight) pairs."""
    values, weights = zip(*choices, strict=True)
    return float(random.choice(values, p=weights))


def _class_names(data: Data) -> tuple[str, ...]:
    """Return the class folder names in label order, which is alphabetical."""
    width = len(str(data.classes - 1))
    return data.class_names or tuple(f"class-{number:0{width}d}" for number in range(data.classes))
