"""What Python code leaves behind when it runs: in objects that outlive its call, in files, on its output."""

from __future__ import annotations

import datetime
import functools
import io
import itertools
import numbers
import os
import random
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
import tensorflow as tf

from workloads.driver.reached import closure_of, codes, is_own, reached

# Of longer collections so many values, and of larger arrays so many bytes, are compared, at equal distances.
_LOOKED_AT, _BYTES_LOOKED_AT = 1 << 16, 1 << 26
_PLAIN = (numbers.Number, str, bytes, datetime.date, datetime.time, datetime.timedelta, type(None), type(...))
_ATOMS = {int, float, complex, bool, str, bytes, type(None)}  # whose repr needs no look into them
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGING_FILES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}

# Object and name in it -> its name in a message, and what it is by now.
_Contents = dict[tuple[int, str], tuple[str, Any]]

_watching: list[Watch] = []


class Watch:
    """See what code leaves behind while this context is entered, from what it may use before and after.

    Attributes:
        found: "" if it is nothing.
        drew: whether it drew random numbers of `random` or `numpy.random`, or of the system, as generators without a
            seed do.
    """

    def __init__(self, starts: Sequence[Any]) -> None:
        self.found = ""
        self.drew = False
        self._starts = starts
        self._before: _Contents = {}

    def __enter__(self) -> Self:
        _listen()
        self._before = _contents(self._starts)
        self._states = _random_states()
        self._stdout = sys.stdout
        sys.stdout = _Heard(self._stdout, self)
        _watching.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _watching.remove(self)
        sys.stdout = self._stdout
        self.drew = self.drew or self._states != _random_states()
        after = _contents(self._starts)
        changed = [
            name for key, (name, content) in after.items() if self._before.get(key, after[key])[1] != content
        ]
        self.found = next(iter(changed), self.found)


def _random_states() -> list[Any]:
    return [random.getstate(), repr(np.random.get_state())]


class _Heard:
    """Standard output that notes that something is written."""

    def __init__(self, stream: Any, watch: Watch) -> None:
        self._stream, self._watch = stream, watch

    def write(self, text: str) -> int:
        self._watch.found = "what is printed"
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _listen() -> None:
    """Have Python report files that are written; once, as that cannot be ended."""
    if not getattr(_listen, "on", False):
        _listen.on = True  # type: ignore[attr-defined]
        sys.addaudithook(_audited)
        # random has a name of its own for it, by which secrets and NumPy get theirs.
        os.urandom = random._urandom = _noted(os.urandom)  # type: ignore[attr-defined]
        random.Random.seed = _noted(random.Random.seed)  # type: ignore[method-assign]


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes that the system is asked for random numbers: so many, or a seed if none is given."""

    @functools.wraps(function)
    def draw(given: Any, seed: Any = None, *args: Any, **named: Any) -> Any:
        if seed is None and named.get("a") is None:
            for each in _watching:
                each.drew = True
        return function(given, *(() if seed is None else (seed,)), *args, **named)

    return draw


def _audited(event: str, given: tuple[Any, ...]) -> None:
    if not _watching:
        return
    writes = event == "open" and isinstance(given[2], int) and given[2] & _WRITES
    path = os.fsdecode(given[0]) if given and isinstance(given[0], (str, bytes)) else ""
    if (writes or event in _CHANGING_FILES) and "__pycache__" not in path and not path.startswith("/dev/"):
        for each in _watching:
            each.found = f"the file {path}"


def _contents(starts: Sequence[Any]) -> _Contents:
    """Return the plain values that code may change, with the names of the variables and attributes that hold them.

    Constants and objects of libraries are left out, apart from those that are made to be changed: random generators,
    iterators, arrays, buffers, queues, tables of pandas, data bases of sqlite3 and open files.
    """
    return {
        (id(thing), name): (name, content)
        for thing in reached(*starts)
        for name, value in _held(thing)
        if (content := _content(value)) is not None
    }


def _held(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object of the script, or a collection, holds directly, with names."""
    match thing:
        case types.FunctionType() if is_own(thing.__module__):
            names = {name for part in codes(thing.__code__) for name in part.co_names}
            yield from ((name, thing.__globals__[name]) for name in sorted(names & thing.__globals__.keys()))
            yield from closure_of(thing)
            yield f"a default of {thing.__name__}", (thing.__defaults__ or (), thing.__kwdefaults__ or {})
        case types.FunctionType():
            yield from closure_of(thing)
        case types.GeneratorType(gi_frame=frame):
            yield thing.__name__, (frame.f_lasti if frame else None)
            yield from (frame.f_locals.items() if frame else ())
        case types.ModuleType() if is_own(thing.__name__):
            yield from vars(thing).items()
        case type() if is_own(thing.__module__):
            yield from ((f"{thing.__name__}.{name}", value) for name, value in [*vars(thing).items()])
        case set():
            yield "a set", thing
        case types.FunctionType() | type() | types.ModuleType():
            return
        case _ if is_own(type(thing).__module__):
            keras = isinstance(thing, (tf.Module, tf.keras.layers.Layer, tf.keras.metrics.Metric))
            yield from (
                (name, value)
                for name, value in [*getattr(thing, "__dict__", {}).items()]
                if not (keras and name.startswith("_"))
            )


def _content(value: Any, depth: int = 4) -> Any:
    """Return what a value is by now; None if that is unknown, as for objects that are looked into by themselves."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (types.ModuleType, type, types.FunctionType)):
        return None
    if isinstance(value, (dict, list, tuple, deque)):
        parts = value.items() if isinstance(value, dict) else value
        some = itertools.islice(parts, 0, None, max(1, len(value) // _LOOKED_AT))
        if isinstance(value, (list, tuple)) and _ATOMS.issuperset(map(type, value)):
            return len(value), repr([*some])
        return len(value), [_content(each, depth - 1) for each in some] if depth else ()
    if isinstance(value, (set, frozenset)):
        return len(value), hash(frozenset(value)) if len(value) <= _LOOKED_AT else None
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        if value.dtype == object:
            return value.shape, repr(flat[:: max(1, flat.size // _LOOKED_AT)].tolist())
        return value.shape, zlib.crc32(flat[:: max(1, value.nbytes // _BYTES_LOOKED_AT)].tobytes())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return hash(value.getstate())
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    with suppress(Exception):  # whatever objects of libraries raise
        return _of_library(value)
    return None


def _of_library(value: Any) -> Any:
    """Return what an object of a library is by now that is made to be changed; None of others."""
    kind = type(value)
    if isinstance(value, io.IOBase):
        return value.tell() if value.seekable() else None
    if hasattr(value, "iloc"):  # of pandas
        return len(value), _content(value.iloc[:: max(1, len(value) // _LOOKED_AT)].to_numpy())
    # Iterators of libraries, such as loaders, look after what they count themselves.
    if hasattr(kind, "__next__"):
        plain = kind.__module__ in ("builtins", "itertools")
        return (repr(value), repr(value.__reduce__()[1:])[-_LOOKED_AT:]) if plain else None
    if hasattr(value, "qsize"):
        return value.qsize()
    if hasattr(value, "total_changes"):  # of sqlite3
        return value.total_changes
    # multiprocessing has buffers in objects of its own.
    buffer = memoryview(value.get_obj() if hasattr(value, "get_obj") else getattr(value, "buf", value)).cast(
        "B"
    )
    return len(buffer), zlib.crc32(buffer[:: max(1, len(buffer) // _BYTES_LOOKED_AT)].tobytes())
