"""Published datasets: URLs, checksums and readers.

Readers only get files whose checksums were verified, so they may load pickles.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.data.generated import PARTS
from harness.errors import DataError, UsageError
from harness.model.workload import Data
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START

_MEMBER = re.compile(r"PetImages/(?P<name>Cat|Dog)/(?P<number>\d+)\.jpg")
_BATCH_FILES = 64  # read at a time
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDataset:
    """A published dataset.

    Attributes:
        unpack: writes the declared samples of the files into a folder; returns a remark or "".
        checksums: URL of each file -> "algorithm:hex".
    """

    unpack: Callable[[Sequence[Path], Data, Path], str]
    checksums: Mapping[str, str]


def read_cifar(files: Sequence[Path], data: Data) -> Arrays:
    """Read CIFAR's Python archive: pictures uint8[n, 32, 32, 3], labels uint8[n]."""
    result: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(files[0]) as tar:
        members = {Path(name).name: name for name in sorted(tar.getnames())}
        for part, prefixes in (("train", ("data_batch", "train")), ("test", ("test",))):
            files_of_part = (tar.extractfile(members[name]) for name in members if name.startswith(prefixes))
            batches = [pickle.load(file, encoding="bytes") for file in files_of_part if file]  # noqa: S301
            labels = [batch.get(b"fine_labels") or batch[b"labels"] for batch in batches]
            pixels = np.concatenate([np.asarray(batch[b"data"], np.uint8) for batch in batches])
            planes = pixels.reshape(-1, 3, 32, 32)
            result[f"x_{part}"] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
            result[f"y_{part}"] = np.concatenate([np.asarray(label, np.uint8) for label in labels])
    return result


def read_idx_files(files: Sequence[Path], data: Data) -> Arrays:
    """Read gzipped IDX files: two zeros, type 8 (unsigned bytes), rank, big-endian sizes, values."""
    result = {}
    for name, path in zip(ARRAYS, files, strict=True):
        content = gzip.decompress(path.read_bytes())
        rank = content[3]
        shape = np.frombuffer(content, ">u4", rank, 4).astype(int)
        result[name] = np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()
    return result


def read_reviews(files: Sequence[Path], data: Data) -> Arrays:
    """Read Keras' imdb.npz, ragged lists of word ranks: tokens uint16[n, longest], labels uint8[n].

    Tokens follow Keras' convention: START first, then r + FIRST_WORD - 1 for rank r, or RARE beyond
    data.vocabulary. Reviews longer than data.shape are cut; shorter ones are padded with zeros.
    """
    result: dict[str, NDArray[Any]] = {}
    with np.load(files[0], allow_pickle=True) as archive:
        for part in ("train", "test"):
            reviews, labels = archive[f"x_{part}"], archive[f"y_{part}"]
            # The file is sorted by class; Keras' loader shuffles both parts with this seed.
            order = np.random.RandomState(113).permutation(len(labels))
            result[f"x_{part}"] = np.stack([_tokens(review, data) for review in reviews[order]])
            result[f"y_{part}"] = labels[order].astype(np.uint8)
    return result


def _tokens(review: Sequence[int], data: Data) -> NDArray[np.uint16]:
    tokens = np.zeros(data.shape[0], np.uint16)
    ranks = np.asarray(review[: len(tokens) - 1], np.int64) + FIRST_WORD - 1
    tokens[0] = START
    tokens[1 : 1 + len(ranks)] = np.where(ranks < data.vocabulary, ranks, RARE)
    return tokens


def save_arrays(
    read: Callable[[Sequence[Path], Data], Arrays], files: Sequence[Path], data: Data, folder: Path
) -> str:
    """Save the first declared samples returned by `read` as four NumPy files.

    Raises:
        UsageError: the declaration does not match the dataset.
    """
    for name, values in read(files, data).items():
        count, shape = (data.train if name.endswith("train") else data.test), values.shape[1:]
        fits = shape == data.shape if name.startswith("x") else values.max() == data.classes - 1
        if not fits or len(values) < count:
            raise UsageError(
                f"The workload's Data(...) does not match {data.name}: its {name} has shape {values.shape}.",
                hint="Correct Data(...), or use another dataset name.",
            )
        np.save(folder / f"{name}.npy", values[:count])
    return ""


def read_npz(files: Sequence[Path], data: Data) -> Arrays:
    """Read an archive with the four arrays, as Keras' mnist.npz."""
    with np.load(files[0]) as archive:
        return {name: archive[name] for name in ARRAYS}


def unpack_pets(files: Sequence[Path], data: Data, folder: Path) -> str:
    """Write the first intact pictures as <part>/<class>/<number>.jpg; return a remark on skipped files.

    The archive has 25,000 photographs (J. Elson et al., "Asirra", 2007, published by Microsoft). Training would fail on
    the broken ones (empty, truncated, not JPEG). The first pictures of each class are for training, the next for
    testing, as in the article.

    Raises:
        DataError: the archive has too few intact pictures.
    """
    (path,) = files
    written = skipped = 0
    with zipfile.ZipFile(path) as archive:
        for label, name in enumerate(("cat", "dog")):
            counts = [len(range(label, count, data.classes)) for count in (data.train, data.test)]
            targets = _targets(folder, name, counts)
            for content, intact in _read_class(archive, name):
                if not intact:
                    skipped += 1
                elif target := next(targets, None):
                    target.write_bytes(content)
                    written += 1
                else:
                    break
            if next(targets, None) is not None:
                raise DataError(
                    f"{path} has fewer than {sum(counts):,} intact pictures of class {name}.",
                    hint="Declare fewer samples in the workload's Data(...), or use --data procedural.",
                )
    return f"{skipped:,} broken files of {skipped + written:,} skipped"


def is_intact(content: bytes) -> bool:
    """Return whether a file is a complete RGB or greyscale JPEG."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            image.load()
            return image.mode in ("RGB", "L")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _targets(folder: Path, name: str, counts: Sequence[int]) -> Iterator[Path]:
    for part, count in zip(PARTS, counts, strict=True):
        (folder / part / name).mkdir(parents=True)
        for number in range(count):
            yield folder / part / name / f"{number:05d}.jpg"


def _read_class(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of each file of a class, in numeric order, and whether it is intact."""
    members = sorted(
        (int(match["number"]), member)
        for member in archive.namelist()
        if (match := _MEMBER.fullmatch(member.replace("\\", "/"))) and match["name"].lower() == name
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(members), _BATCH_FILES):
            contents = [archive.read(member) for _, member in members[start : start + _BATCH_FILES]]
            yield from zip(contents, pool.map(is_intact, contents), strict=True)


def _arrays(read: Callable[[Sequence[Path], Data], Arrays], checksums: Mapping[str, str]) -> PublishedDataset:
    return PublishedDataset(unpack=partial(save_arrays, read), checksums=checksums)


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_PETS = "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F"
_CIFAR10_SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
_CIFAR100_SHA256 = "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
_PETS_SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"

# CIFAR: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009), SHA-256 as in Keras.
# Fashion-MNIST: H. Xiao et al. (2017), MD5 as in its repository. Cats and dogs: see unpack_pets, SHA-256 as in
# several public projects. Reviews: A. Maas et al., "Learning Word Vectors for Sentiment Analysis" (2011),
# as Keras' imdb.npz.
PUBLISHED: Mapping[str, PublishedDataset] = {
    "cifar10": _arrays(read_cifar, {f"{_CIFAR}/cifar-10-python.tar.gz": f"sha256:{_CIFAR10_SHA256}"}),
    "cifar100": _arrays(read_cifar, {f"{_CIFAR}/cifar-100-python.tar.gz": f"sha256:{_CIFAR100_SHA256}"}),
    "fashion-mnist": _arrays(
        read_idx_files,
        {
            f"{_FASHION}/train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            f"{_FASHION}/train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            f"{_FASHION}/t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            f"{_FASHION}/t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cats-and-dogs": PublishedDataset(
        unpack=unpack_pets,
        checksums={f"{_PETS}/kagglecatsanddogs_5340.zip": f"sha256:{_PETS_SHA256}"},
    ),
    "mnist": _arrays(
        read_npz,
        {f"{_KERAS}/mnist.npz": "sha256:731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"},
    ),
    "imdb": _arrays(
        read_reviews,
        {f"{_KERAS}/imdb.npz": "sha256:69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"},
    ),
}

# The data sets of keras.datasets: name, also of its module with hyphens for underscores -> its shape.
KERAS_DATASETS: Mapping[str, Data] = {
    data.name: data
    for data in (
        Data(name="mnist", shape=(28, 28), classes=10, train=60_000, test=10_000),
        Data(name="fashion-mnist", shape=(28, 28), classes=10, train=60_000, test=10_000),
        Data(name="cifar10", shape=(32, 32, 3), classes=10, train=50_000, test=10_000),
        Data(name="cifar100", shape=(32, 32, 3), classes=100, train=50_000, test=10_000),
        Data(
            name="imdb", shape=(500,), classes=2, train=25_000, test=25_000, dtype="uint16", vocabulary=20_000
        ),
    )
}
