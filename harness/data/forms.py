"""In which files a dataset lies: four NumPy files, or a tree of JPEG files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.protocol import ARRAYS, Data

PARTS = ("train", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a kind of dataset is laid out.

    Attributes:
        files: folder -> paths below it of all that is its content, in a fixed order.
        whole: whether a folder has all that a declaration asks for, none torn, as far as a glance tells.
    """

    files: Callable[[Path], tuple[str, ...]]
    whole: Callable[[Path, Data], bool]


def class_names(data: Data) -> tuple[str, ...]:
    """Return the names of the classes' folders, in the order of their labels, which is the alphabet's."""
    if data.class_names:
        return data.class_names
    width = len(str(data.classes - 1))
    return tuple(f"class-{number:0{width}d}" for number in range(data.classes))


def of_class(count: int, classes: int, label: int) -> int:
    """Return how many of `count` samples are of class `label` when all classes have the same number."""
    return len(range(label, count, classes))


def _arrays(folder: Path) -> tuple[str, ...]:
    return tuple(f"{name}.npy" for name in ARRAYS)


def _whole_arrays(folder: Path, data: Data) -> bool:
    """Read the files' headers only."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
    except (OSError, ValueError):
        return False
    shapes = ((data.train, *data.shape), (data.train,), (data.test, *data.shape), (data.test,))
    return all(arrays[name].shape == shape for name, shape in zip(ARRAYS, shapes, strict=True))


def _tree(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg")))


def _whole_tree(folder: Path, data: Data) -> bool:
    """Count files that are not empty."""
    try:
        for part, count in zip(PARTS, (data.train, data.test), strict=True):
            for label, name in enumerate(class_names(data)):
                with os.scandir(folder / part / name) as entries:
                    there = sum(entry.stat().st_size > 0 for entry in entries)
                if there != of_class(count, data.classes, label):
                    return False
    except OSError:
        return False
    return True


FORMS: Mapping[str, Form] = {
    "arrays": Form(files=_arrays, whole=_whole_arrays),
    "table": Form(files=_arrays, whole=_whole_arrays),
    "jpeg": Form(files=_tree, whole=_whole_tree),
}
