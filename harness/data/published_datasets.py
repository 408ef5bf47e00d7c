"""The published datasets that tfbench knows: where they come from, their checksums, and how their files are read.

Whatever is read here has the published checksum (download.py), so that neither its form nor its pickles are in doubt.
"""

from __future__ import annotations

import gzip
import pickle
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.download import Archive
from harness.data.pets import CLASSES, unpack_pets
from harness.errors import UsageError
from workloads.protocol import ARRAYS, FIRST_WORD, RARE, START, Data

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A dataset as published.

    Attributes:
        archives: its files.
        unpack: (files, what is declared, folder) -> what there is to say about it, "" for nothing; writes
            the first samples into the folder.
        whole: the declaration of all of it.
        together: its samples are one heap that is divided as wanted.
    """

    archives: tuple[Archive, ...]
    unpack: Callable[[Sequence[Path], Data, Path], str]
    whole: Data
    together: bool = False

    def check(self, data: Data) -> None:
        """Make sure that a declaration is about this dataset or a part of it.

        Raises:
            UsageError: it is not.
        """
        whole = self.whole
        same = replace(data, train=whole.train, test=whole.test, name=whole.name) == whole
        enough = data.train <= whole.train and data.test <= whole.test
        if self.together:
            enough = data.train + data.test <= whole.train + whole.test
        if not (same and enough):
            raise UsageError(
                f"The declaration of {data.name} does not fit the dataset, which is {whole}.",
                hint="Correct the workload's Data(...), or use another dataset name.",
            )


def read_cifar(files: Sequence[Path], data: Data) -> Arrays:
    """Read a CIFAR archive in its Python version: pictures uint8[n, 32, 32, 3], labels uint8[n]."""
    result: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(files[0]) as tar:
        members = {Path(name).name: name for name in sorted(tar.getnames())}
        for part, prefixes in (("train", ("data_batch", "train")), ("test", ("test",))):
            batches = [
                pickle.loads(_member(tar, path), encoding="bytes")  # noqa: S301
                for name, path in members.items()
                if name.startswith(prefixes)
            ]
            labels = [batch.get(b"fine_labels") or batch[b"labels"] for batch in batches]
            pixels = np.concatenate([np.asarray(batch[b"data"], np.uint8) for batch in batches])
            planes = pixels.reshape(-1, 3, 32, 32)
            result[f"x_{part}"] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
            result[f"y_{part}"] = np.concatenate([np.asarray(each, np.uint8) for each in labels])
    return result


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None, name
    return file.read()


def read_idx_files(files: Sequence[Path], data: Data) -> Arrays:
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


def read_reviews(files: Sequence[Path], data: Data) -> Arrays:
    """Read the reviews of films as Keras publishes them: imdb.npz, ragged lists of word ranks.

    Longer ones than data.shape are cut, shorter ones end with zeros; words beyond data.vocabulary are rare.

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
    """Save the first samples of what `read` gives as four NumPy files."""
    result = read(files, data)
    for name in ARRAYS:
        count = data.train if name.endswith("train") else data.test
        np.save(folder / f"{name}.npy", result[name][:count])
    return ""


_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_PETS = "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F"


def _cifar(classes: int, sha256: str) -> Published:
    url = f"https://www.cs.toronto.edu/~kriz/cifar-{classes}-python.tar.gz"
    return Published(
        archives=(Archive(url=url, checksum=f"sha256:{sha256}"),),
        unpack=partial(save_arrays, read_cifar),
        whole=Data(name=f"cifar{classes}", shape=(32, 32, 3), classes=classes, train=50_000, test=10_000),
    )


# CIFAR: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009); the sha256 are those
# that Keras checks. Fashion-MNIST: H. Xiao et al. (2017), MD5 as its repository prints them. Cats and dogs:
# see pets.py; the sha256 is what several public projects check, its shape that of the mean picture.
# Reviews: A. Maas et al., "Learning Word Vectors for Sentiment Analysis" (2011), as Keras' imdb.npz.
PUBLISHED: Mapping[str, Published] = {
    "cifar10": _cifar(10, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"),
    "cifar100": _cifar(100, "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"),
    "fashion-mnist": Published(
        archives=tuple(
            Archive(url=f"{_FASHION}/{name}.gz", checksum=f"md5:{md5}")
            for name, md5 in (
                ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        unpack=partial(save_arrays, read_idx_files),
        whole=Data(name="fashion-mnist", shape=(28, 28), classes=10, train=60_000, test=10_000),
    ),
    "cats-and-dogs": Published(
        archives=(
            Archive(
                url=f"{_PETS}/kagglecatsanddogs_5340.zip",
                checksum="sha256:b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9",
            ),
        ),
        unpack=unpack_pets,
        whole=Data(
            name="cats-and-dogs",
            shape=(360, 404, 3),
            classes=2,
            train=25_000,
            test=0,
            kind="jpeg",
            class_names=CLASSES,
        ),
        together=True,
    ),
    "imdb": Published(
        archives=(
            Archive(
                url=f"{_KERAS}/imdb.npz",
                checksum="sha256:69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
            ),
        ),
        unpack=partial(save_arrays, read_reviews),
        whole=Data(
            name="imdb",
            shape=(500,),  # nine reviews of ten are shorter
            classes=2,
            train=25_000,
            test=25_000,
            dtype="uint16",
            vocabulary=20_000,
        ),
    ),
}
