"""What stands in for what a script imports: data sets and files from mounts, plotting libraries that do nothing."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf

from workloads.protocol import ARRAYS, FIRST_WORD, PLOTTING, RARE, START

# Function of matplotlib -> length of what it returns.
_PARTS = {"plot": 1, "hist": 3, "subplot_mosaic": 2}
# What scripts use after `from matplotlib.pyplot import *`.
_PYPLOT = (
    "annotate", "axes", "axhline", "axis", "axvline", "bar", "barh", "boxplot", "cla", "clf", "close", "cm", "colorbar",
    "contour", "contourf", "errorbar", "figlegend", "figtext", "figure", "fill_between", "gca", "gcf", "gray", "grid",
    "hist", "hist2d", "hlines", "imread", "imsave", "imshow", "legend", "loglog", "matshow", "pause", "pcolor",
    "pcolormesh", "pie", "plot", "rc", "rcParams", "savefig", "scatter", "semilogx", "semilogy", "show", "stem", "step",
    "subplot", "subplots", "subplots_adjust", "suptitle", "text", "tick_params", "tight_layout", "title", "twinx",
    "violinplot", "vlines", "xlabel", "xlim", "xscale", "xticks", "ylabel", "ylim", "yscale", "yticks",
)  # fmt: skip


@contextmanager
def mounted(data: Mapping[str, str], mounts: Sequence[str]) -> Iterator[None]:
    """Replace load_data of the data sets in `data`, and get_file for files below `mounts`."""
    with ExitStack() as stack:
        for name, folder in data.items():
            module = getattr(tf.keras.datasets, name.replace("-", "_"), None)
            if module is not None:
                load = _reviews(Path(folder)) if name == "imdb" else _arrays(Path(folder), name)
                stack.enter_context(patch.object(module, "load_data", load))
        stack.enter_context(patch.object(tf.keras.utils, "get_file", _get_file(mounts)))
        yield


def _arrays(folder: Path, name: str) -> Callable[..., Any]:
    def load_data(path: str = "", label_mode: str = "fine") -> Any:
        if name == "cifar100" and label_mode != "fine":
            raise ValueError("Only label_mode='fine' of cifar100 is available here.")
        parts = [np.load(folder / f"{part}.npy") for part in ARRAYS]
        # CIFAR's labels are a column in Keras.
        x_train, y_train, x_test, y_test = (
            part[:, None] if part.ndim == 1 and name.startswith("cifar") else part for part in parts
        )
        return (x_train, y_train), (x_test, y_test)

    return load_data


def _reviews(folder: Path) -> Callable[..., Any]:
    def load_data(
        path: str = "",
        num_words: int | None = None,
        skip_top: int = 0,
        maxlen: int | None = None,
        seed: int = 113,
        start_char: int | None = START,
        oov_char: int = RARE,
        index_from: int = FIRST_WORD - 1,
    ) -> Any:
        if (start_char, oov_char, index_from) != (START, RARE, FIRST_WORD - 1):
            raise ValueError(
                "imdb is available here with Keras' default start_char, oov_char and index_from only."
            )

        def limited(part: str) -> Any:
            tokens, labels = np.load(folder / f"x_{part}.npy"), np.load(folder / f"y_{part}.npy")
            # Stored tokens are below 65,536.
            kept = (tokens >= skip_top) & (tokens < (num_words or 1 << 16))
            tokens = np.where(kept | (tokens == 0) | (tokens == START), tokens, RARE).astype(np.int32)
            reviews = np.empty(len(tokens), object)
            reviews[:] = [row[: np.count_nonzero(row)].tolist() for row in tokens]
            if maxlen:
                short = np.array([len(review) < maxlen for review in reviews])
                reviews, labels = reviews[short], labels[short]
            return reviews, labels.astype(np.int64)

        return limited("train"), limited("test")

    return load_data


def _get_file(mounts: Sequence[str]) -> Callable[..., Any]:
    original = tf.keras.utils.get_file

    def get_file(fname: str | None = None, origin: str | None = None, *args: Any, **named: Any) -> Any:
        names = {Path(str(each)).name for each in (fname, origin) if each}
        for mount in map(Path, mounts):
            candidates = [mount] if mount.is_file() else mount.rglob("*")
            found = next((path for path in candidates if path.name in names), None)
            if found is not None:
                named |= {"origin": found.as_uri(), "cache_dir": None, "file_hash": named.get("file_hash")}
                return original(fname, *args, **named)
        return original(fname, origin, *args, **named)

    return get_file


class Nothing(ModuleType):
    """Whatever is asked of it, it is there and does nothing."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - as in its base class
    __version__ = "0"

    def __init__(self, name: str = "nothing") -> None:
        super().__init__(name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Do nothing; what scripts unpack has as many parts as in matplotlib."""
        name = self.__name__.rpartition(".")[2]
        if name == "imread":
            package = self.__name__.partition(".")[0]
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        if name == "subplots":
            axes = self._axes(*args, **named)
            return (self, axes) if self.__name__ == "matplotlib.pyplot.subplots" else axes
        return [self] * _PARTS[name] if name in _PARTS else self

    def _axes(self, nrows: int = 1, ncols: int = 1, *, squeeze: bool = True, **_: Any) -> Any:
        axes = np.full((nrows, ncols), self, object)
        return axes if not squeeze else self if axes.size == 1 else axes.squeeze()

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and self.__name__ in ("matplotlib.pyplot", "matplotlib.pylab"):
            return _PYPLOT
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self.__name__}.{name}")

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Do nothing."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str], used: Callable[[str], None]) -> None:
        self._names = names
        self._used = used

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        first = name.partition(".")[0]
        if first not in self._names:
            return None
        if first == name:
            self._used(name)
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Nothing(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


@contextmanager
def _drawing_models(used: Callable[[str], None]) -> Iterator[None]:
    """Let plot_model and model_to_dot do nothing where pydot, or the program it calls, is missing."""
    module: Any = sys.modules[tf.keras.utils.plot_model.__module__]
    if getattr(module, "pydot", None) is not None and shutil.which("dot"):
        yield
        return

    @cache
    def check() -> bool:
        used("pydot with Graphviz")
        return True

    with (
        patch.object(module, "pydot", Nothing("pydot")),
        patch.object(module, "check_pydot", check),
        patch.object(module, "check_graphviz", check),
    ):
        yield


@contextmanager
def plotting(used: Callable[[str], None]) -> Iterator[None]:
    """Provide the plotting libraries that are not installed inside the block; `used` is told of each."""
    missing = [name for name in PLOTTING if importlib.util.find_spec(name) is None]
    finder = _Finder(missing, used)
    sys.meta_path.append(finder)
    try:
        with _drawing_models(used):
            yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if each.partition(".")[0] in missing]:
            del sys.modules[name]
