"""Read the reviews of films as Keras publishes them: imdb.npz, ragged lists of word ranks, pickled."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.archives import broken_archive
from harness.data.published_data import Arrays, load_arrays_only
from workloads.protocol import FIRST_WORD, RARE, START

# Keras' own loader shuffles the two parts with this seed; the files are sorted by class.
_SEED = 113


def read_reviews(files: Sequence[Path], longest: int, words: int) -> Arrays:
    """Read x_train, y_train, x_test, y_test.

    Args:
        files: the archive.
        longest: reviews are cut to so many tokens; shorter ones end with zeros.
        words: tokens from here on are the rare words'.

    Returns:
        Tokens uint16[n, longest] by Keras' convention (START first, a word of rank r is r + FIRST_WORD - 1,
        RARE for rare words), labels uint8[n].

    Raises:
        DataError: the archive is not in this format.
    """
    (path,) = files
    result: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("train", "test"):
                order = np.random.RandomState(_SEED).permutation(len(_array(archive, f"y_{part}")))
                reviews = _array(archive, f"x_{part}")[order]
                result[f"x_{part}"] = np.stack([_tokens(review, longest, words) for review in reviews])
                result[f"y_{part}"] = _array(archive, f"y_{part}")[order].astype(np.uint8)
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError) as error:
        raise broken_archive(path, error) from error
    return result


def _tokens(review: Sequence[int], longest: int, words: int) -> NDArray[np.uint16]:
    tokens = np.zeros(longest, np.uint16)
    ranks = np.asarray(review[: longest - 1], np.int64) + FIRST_WORD - 1
    tokens[0] = START
    tokens[1 : 1 + len(ranks)] = np.where(ranks < words, ranks, RARE)
    return tokens


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    file = io.BytesIO(archive.read(f"{name}.npy"))
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name} has the unsupported NumPy format {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype != np.dtype(object):
        return np.frombuffer(file.read(), dtype).reshape(shape)
    array = load_arrays_only(file)
    if not isinstance(array, np.ndarray) or array.shape != shape:
        raise ValueError(f"{name} does not have the shape in its header")
    return array
