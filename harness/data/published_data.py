"""The published datasets that tfbench knows: where they come from and how their files are read.

Whatever is read here has the published checksum (archives.py), so that neither its form nor its pickles are in doubt.
"""

from __future__ import annotations

import gzip
import pickle
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.archives import Archive
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START, Data

Arrays = Mapping[str, NDArray[Any]]
Unpack = Callable[[Sequence[Path], Data, Path], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A dataset as published.

    Attributes:
        archives: its files.
        unpack: (files, what is declared, folder) -> what there is to say about it, "" for nothing; writes
            the first samples into the folder in the form of `kind`.
        shape, classes, kind, class_names: as in workloads.protocol.Data.
        train, test: how many samples there are. `together` when they are one heap that is divided as wanted.
    """

    archives: tuple[Archive, ...]
    unpack: Unpack
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    kind: str = "arrays"
    class_names: tuple[str, ...] = ()
    together: bool = False
    dtype: str = "uint8"
    vocabulary: int = 0

    def fits(self, data: Data) -> bool:
        """Return whether a declaration is about this dataset or a part of it."""
        fields = ("shape", "classes", "dtype", "kind", "class_names", "vocabulary")
        same = all(getattr(data, field) == getattr(self, field) for field in fields)
        if self.together:
            return same and data.train + data.test <= self.train + self.test
        return same and data.train <= self.train and data.test <= self.test


def read_cifar(files: Sequence[Path], train: Sequence[str], test: Sequence[str], labels: bytes) -> Arrays:
    """Read a CIFAR archive in its Python version.

    Args:
        files: the archive.
        train, test: members, as paths in the archive.
        labels: the batches' key of the labels.

    Returns:
        Pictures uint8[n, 32, 32, 3], labels uint8[n].
    """
    result: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(files[0]) as tar:
        for part, members in (("train", train), ("test", test)):
            batches = [pickle.loads(_member(tar, name), encoding="bytes") for name in members]  # noqa: S301
            pixels = np.concatenate([np.asarray(batch[b"data"], np.uint8) for batch in batches])
            planes = pixels.reshape(-1, 3, 32, 32)
            result[f"x_{part}"] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
            result[f"y_{part}"] = np.concatenate([np.asarray(batch[labels], np.uint8) for batch in batches])
    return result


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None, name
    return file.read()


def read_idx_files(files: Sequence[Path]) -> Arrays:
    """Read train images, train labels, test images and test labels from gzipped IDX files.

    These hold two zeros, type 8 (unsigned bytes), rank, big-endian sizes, values.
    """
    result = {}
    for name, path in zip(ARRAYS, files, strict=True):
        content = gzip.decompress(path.read_bytes())
        rank = content[3]
        shape = np.frombuffer(content, ">u4", rank, 4).astype(int)
        result[name] = np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()
    return result


def read_reviews(files: Sequence[Path], longest: int, words: int) -> Arrays:
    """Read the reviews of films as Keras publishes them: imdb.npz, ragged lists of word ranks.

    Args:
        files: the archive.
        longest: reviews are cut to so many tokens; shorter ones end with zeros.
        words: tokens from here on are the rare words'.

    Returns:
        Tokens uint16[n, longest] by Keras' convention (START first, a word of rank r is r + FIRST_WORD - 1,
        RARE for rare words), labels uint8[n].
    """
    result: dict[str, NDArray[Any]] = {}
    with np.load(files[0], allow_pickle=True) as archive:
        for part in ("train", "test"):
            reviews, labels = archive[f"x_{part}"], archive[f"y_{part}"]
            # Sorted by class; Keras' own loader shuffles both parts with this seed.
            order = np.random.RandomState(113).permutation(len(labels))
            result[f"x_{part}"] = np.stack([_tokens(review, longest, words) for review in reviews[order]])
            result[f"y_{part}"] = labels[order].astype(np.uint8)
    return result


def _tokens(review: Sequence[int], longest: int, words: int) -> NDArray[np.uint16]:
    tokens = np.zeros(longest, np.uint16)
    ranks = np.asarray(review[: longest - 1], np.int64) + FIRST_WORD - 1
    tokens[0] = START
    tokens[1 : 1 + len(ranks)] = np.where(ranks < words, ranks, RARE)
    return tokens


def arrays(read: Callable[[Sequence[Path]], Arrays]) -> Unpack:
    """Return an `unpack` that saves the first samples of what `read` gives as four NumPy files."""

    def unpack(files: Sequence[Path], data: Data, folder: Path) -> str:
        result = read(files)
        for name in ARRAYS:
            count = data.train if name.endswith("train") else data.test
            np.save(folder / f"{name}.npy", result[name][:count])
        return ""

    return unpack
