"""Stand-ins for plotting libraries that an image lacks: scripts draw, but it has no effect on what is measured."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

PLOTTING = ("matplotlib", "seaborn", "IPython", "plotly")


class Nothing(ModuleType):
    """Whatever is asked of it, it is there and does nothing."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - as in its base class

    def __init__(self, name: str = "nothing") -> None:
        super().__init__(name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Do nothing; matplotlib's subplots returns a figure and its axes."""
        return (self, self) if self.__name__.endswith("subplots") else self

    def __getattr__(self, name: str) -> Any:
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
def stand_ins(used: Callable[[str], None]) -> Iterator[None]:
    """Provide the plotting libraries that are not installed inside the block; `used` is told of each."""
    missing = [name for name in PLOTTING if importlib.util.find_spec(name) is None]
    finder = _Finder(missing, used)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if each.partition(".")[0] in missing]:
            del sys.modules[name]
