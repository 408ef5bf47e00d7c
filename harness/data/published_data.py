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
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from harness.data.archives import Archive, broken_archive
from workloads.protocol import ARRAYS, Data

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
    dtype: str = "uint8"
    vocabulary: int = 0

    def fits(self, data: Data) -> bool:
        """Return whether a declaration is about this dataset or a part of it."""
        fields = ("shape", "classes", "dtype", "kind", "class_names", "vocabulary")
        same = all(getattr(data, field) == getattr(self, field) for field in fields)
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
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a dataset")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_arrays_only(file: IO[bytes]) -> Any:
    """Unpickle what holds arrays and plain values only, bytes where Python 2 had text.

    Raises:
        pickle.UnpicklingError: it holds anything else.
    """
    return _ArraysOnly(file, encoding="bytes").load()


def read_batch(content: bytes) -> Mapping[bytes, Any]:
    """Return one pickled batch, keys as bytes.

    Raises:
        pickle.UnpicklingError: it holds anything but arrays and plain values.
    """
    batch = load_arrays_only(io.BytesIO(content))
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
    return {name: _read_idx(path) for name, path in zip(ARRAYS, files, strict=True)}


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
        result = read(files)
        for name in ARRAYS:
            count = data.train if name.endswith("train") else data.test
            np.save(folder / f"{name}.npy", result[name][:count])
        return ""

    return unpack
