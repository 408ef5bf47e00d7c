"""The published datasets that tfbench knows: where they come from and how their files are read.

Reading trusts nothing: archives are never unpacked to disk, and pickles may hold arrays and bytes only.
"""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data import pets
from harness.data.archives import Archive, broken_archive
from harness.data.forms import FILES
from workloads.protocol import Data

Arrays = Mapping[str, NDArray[np.uint8]]
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

    def fits(self, data: Data) -> bool:
        """Tell whether a declaration speaks of this dataset or a part of it."""
        same = (data.shape, data.classes, data.dtype, data.kind, data.class_names) == (
            self.shape, self.classes, "uint8", self.kind, self.class_names
        )  # fmt: skip
        if self.together:
            return same and data.train + data.test <= self.train + self.test
        return same and data.train <= self.train and data.test <= self.test


class _ArraysOnly(pickle.Unpickler):
    """Loads what NumPy arrays, lists, dicts, bytes and numbers need, and refuses everything else."""

    # NumPy 2 moved its internals; the published files name the old places.
    _ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} has no business in a dataset")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_batch(content: bytes) -> Mapping[bytes, Any]:
    """Return one pickled batch, keys as bytes.

    Raises:
        pickle.UnpicklingError: it holds anything but arrays and plain values.
    """
    batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict):
        raise pickle.UnpicklingError("not a dictionary")
    return batch


def read_cifar(files: Sequence[Path], train: Sequence[str], test: Sequence[str], labels: bytes) -> Arrays:
    """Read a CIFAR archive in its Python version.

    Args:
        files: the archive.
        train, test: members, as paths in the archive.
        labels: the batches' key of the labels.

    Returns:
        Pictures uint8[n, 32, 32, 3], labels uint8[n].

    Raises:
        DataError: the archive is not in this format.
    """
    (path,) = files
    arrays: dict[str, NDArray[np.uint8]] = {}
    try:
        with tarfile.open(path) as tar:
            for part, members in (("train", train), ("test", test)):
                batches = [read_batch(_member(tar, name)) for name in members]
                pixels = np.concatenate([np.asarray(batch[b"data"], np.uint8) for batch in batches])
                planes = pixels.reshape(-1, 3, 32, 32)
                arrays[f"x_{part}"] = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
                arrays[f"y_{part}"] = np.concatenate([np.asarray(b[labels], np.uint8) for b in batches])
    except (tarfile.TarError, pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError) as error:
        raise broken_archive(path, error) from error
    return arrays


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file")
    return file.read()


def read_idx_files(files: Sequence[Path]) -> Arrays:
    """Read train images, train labels, test images and test labels from gzipped IDX files.

    Raises:
        DataError: a file is not in this format.
    """
    names = ("x_train", "y_train", "x_test", "y_test")
    return {name: _read_idx(path) for name, path in zip(names, files, strict=True)}


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes: two zeros, type 8, rank, big-endian sizes, values."""
    try:
        content = gzip.decompress(path.read_bytes())
        if content[:3] != b"\0\0\x08":
            raise ValueError("not an IDX file of unsigned bytes")
        rank = content[3]
        shape = tuple(int(size) for size in np.frombuffer(content, ">u4", rank, 4))
        return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()
    except (gzip.BadGzipFile, EOFError, ValueError, IndexError) as error:
        raise broken_archive(path, error) from error


def arrays(read: Callable[[Sequence[Path]], Arrays]) -> Unpack:
    """Return an `unpack` that saves the first samples of what `read` gives as four NumPy files."""

    def unpack(files: Sequence[Path], data: Data, folder: Path) -> str:
        found = read(files)
        for name in FILES:
            count = data.train if name.endswith("train") else data.test
            np.save(folder / f"{name}.npy", found[name][:count])
        return ""

    return unpack


def _cifar10(files: Sequence[Path]) -> Arrays:
    folder = "cifar-10-batches-py"
    train = [f"{folder}/data_batch_{number}" for number in range(1, 6)]
    return read_cifar(files, train, [f"{folder}/test_batch"], b"labels")


def _cifar100(files: Sequence[Path]) -> Arrays:
    folder = "cifar-100-python"
    return read_cifar(files, [f"{folder}/train"], [f"{folder}/test"], b"fine_labels")


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

_PETS = "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F"

# CIFAR: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009); the sha256 are those
# that Keras checks. Fashion-MNIST: H. Xiao et al. (2017), MD5 as its repository prints them. Cats and dogs:
# see pets.py; the sha256 is what several public projects check, its shape that of the mean picture.
KNOWN: Mapping[str, Published] = {
    "cifar10": Published(
        archives=(
            Archive(
                file="cifar-10-python.tar.gz",
                url=f"{_CIFAR}/cifar-10-python.tar.gz",
                checksum="sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
        unpack=arrays(_cifar10),
        shape=(32, 32, 3),
        classes=10,
        train=50_000,
        test=10_000,
    ),
    "cifar100": Published(
        archives=(
            Archive(
                file="cifar-100-python.tar.gz",
                url=f"{_CIFAR}/cifar-100-python.tar.gz",
                checksum="sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            ),
        ),
        unpack=arrays(_cifar100),
        shape=(32, 32, 3),
        classes=100,
        train=50_000,
        test=10_000,
    ),
    "fashion-mnist": Published(
        archives=tuple(
            Archive(file=f"fashion-mnist-{name}.gz", url=f"{_FASHION}/{name}.gz", checksum=f"md5:{md5}")
            for name, md5 in (
                ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        unpack=arrays(read_idx_files),
        shape=(28, 28),
        classes=10,
        train=60_000,
        test=10_000,
    ),
    "cats-and-dogs": Published(
        archives=(
            Archive(
                file="kagglecatsanddogs_5340.zip",
                url=f"{_PETS}/kagglecatsanddogs_5340.zip",
                checksum="sha256:b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9",
            ),
        ),
        unpack=pets.unpack_pets,
        shape=(360, 404, 3),
        classes=2,
        train=25_000,
        test=0,
        kind="jpeg",
        class_names=pets.CLASSES,
        together=True,
    ),
}
