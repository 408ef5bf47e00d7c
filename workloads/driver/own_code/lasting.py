"""What Python code leaves behind when it runs: in objects that outlive its call, in files, on its output."""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import io
import itertools
import logging
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
from tensorflow.python.eager import context
from tensorflow.python.framework import random_seed, tensor
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from workloads.driver.own_code.changing import own_code
from workloads.driver.own_code.reached import (
    PLAIN,
    closure_of,
    codes,
    is_of_tensorflow,
    is_own,
    may_change,
    names_any,
    reached,
)

# Of longer collections so many values, and of larger arrays so many bytes, are compared, at equal distances; of what
# objects hold, so many levels and so many objects.
_LOOKED_AT, _BYTES_LOOKED_AT, _LEVELS, _MOST = 1 << 16, 1 << 26, 50, 1 << 18
_ATOMS = {int, float, complex, bool, str, bytes, type(None)}  # whose repr needs no look into them
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGING_FILES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_ASKING = {
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork"), "starts a process"),
    **dict.fromkeys(("socket.connect", "socket.sendto", "urllib.Request"), "asks another machine"),
}

# Generators whose states are compared in any case.
_DRAWN = (random._inst, np.random.mtrand._rand)

# Object and name in it -> its name in a message, what it is by now, and the class of what cannot be compared in it.
_Contents = dict[tuple[int, str], tuple[str, Any, str]]

_watching: list[Watch] = []


class Watch:
    """See what code leaves behind while this context is entered, from what it may use before and after.

    Attributes:
        found: as in "changes count" and "may change count (a HASH)"; "" if it is nothing.
        drew: whether it drew random numbers of `random` or `numpy.random`, or of the system, as generators without a
            seed do.
        asked: what it did whose answer may be any, or another without values: it "starts a process", "asks another
            machine" or "writes a tensor as text"; "" if nothing.
    """

    def __init__(self, starts: Sequence[Any]) -> None:
        self.found = ""
        self.asked = ""
        self.drew = False
        self._starts = starts
        self._before: _Contents = {}

    def __enter__(self) -> Self:
        _listen()
        self._before = _contents(self._starts)
        self._states = _random_states()
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (each and _Heard(each, self) for each in self._streams)
        self._records = _Records(self)
        logging.getLogger().addHandler(self._records)
        _watching.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _watching.remove(self)
        sys.stdout, sys.stderr = self._streams
        logging.getLogger().removeHandler(self._records)
        self.drew = self.drew or self._states != _random_states()
        after = _contents(self._starts)
        changed = [
            (name, hidden)
            for key, (name, content, hidden) in after.items()
            if self._before.get(key, after[key])[1] != content
        ]
        for name, hidden in sorted(changed, key=lambda each: each[1] != "")[:1]:
            self.found = f"may change {name} (a {hidden})" if hidden else f"changes {name}"


def _random_states() -> list[Any]:
    drawn = getattr(context.context(), "_rng", None)  # from which operations of TensorFlow get their seeds
    return [random.getstate(), repr(np.random.get_state()), drawn and drawn.getstate()]


class _Records(logging.Handler):
    """Notes that something is logged."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] not in ("tensorflow", "absl"):
            self._watch.found = "changes what is logged"


class _Heard:
    """Standard output, or that of errors, that notes that something is written."""

    def __init__(self, stream: Any, watch: Watch) -> None:
        self._stream, self._watch = stream, watch

    def write(self, text: str) -> int:
        self._watch.found = "changes what is printed"
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
        random_seed.get_seed = _seeding(random_seed.get_seed)
        for kind in (tensor.Tensor, BaseResourceVariable, tf.keras.Variable):
            kind.__str__, kind.__repr__ = _written(kind.__str__), _written(kind.__repr__)


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes that the system is asked for random numbers: so many, or a seed if none is given."""

    @functools.wraps(function)
    def draw(given: Any, seed: Any = None, *args: Any, **named: Any) -> Any:
        if seed is None and named.get("a") is None:
            for each in _watching:
                each.drew = True
        return function(given, *(() if seed is None else (seed,)), *args, **named)

    return draw


def _seeding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes that an operation of TensorFlow draws at once, and not in a graph."""

    @functools.wraps(function)
    def seeds(*args: Any, **named: Any) -> Any:
        if tf.executing_eagerly():
            for each in _watching:
                each.drew = True
        return function(*args, **named)

    return seeds


def _written(function: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that notes that the script's code writes a tensor as text, which has no value in a graph."""

    @functools.wraps(function)
    def text(each: Any) -> str:
        if _watching and is_own(sys._getframe(1).f_globals.get("__name__", "")):
            for watch in _watching:
                watch.asked = "writes a tensor as text"
        return function(each)

    return text


def _audited(event: str, given: tuple[Any, ...]) -> None:
    if not _watching:
        return
    for each in _watching if event in _ASKING else ():
        each.asked = _ASKING[event]
    writes = event == "open" and isinstance(given[2], int) and given[2] & _WRITES
    path = os.fsdecode(given[0]) if given and isinstance(given[0], (str, bytes)) else ""
    if (writes or event in _CHANGING_FILES) and "__pycache__" not in path and not path.startswith("/dev/"):
        for each in _watching:
            each.found = f"changes the file {path}"


def _contents(starts: Sequence[Any]) -> _Contents:
    """Return what code may change, with the names of the variables and attributes that hold it.

    Constants are left out, and objects of TensorFlow but for those that are made to be changed.
    """
    found: _Contents = {}
    things = [*reached(*starts)]
    parts = [*own_code(things)]
    steps = (step for part in parts for step in dis.get_instructions(part))
    stored = {str(step.argval) for step in steps if step.opname == "STORE_ATTR"}
    reading = _Reading({name for part in parts for name in part.co_names})
    named = [(thing, name, value) for thing in things for name, value in reading.held(thing, stored)]
    # What no variable or attribute holds, such as an item, goes by its class.
    others = ((thing, f"a {type(thing).__name__}", thing) for thing in things)
    for thing, name, value in itertools.chain(named, others):
        content, hidden = reading.of(value)
        if content is not None:
            found[id(thing), name] = name, content, hidden
    return found


class _Reading:
    """Read what values are by now, each object once.

    What Python tells of an object to copy or store it is what is compared; where it tells nothing, nobody can see
    whether the object changes.

    Args:
        named: what the script's code names.
    """

    def __init__(self, named: set[str]) -> None:
        self._named = named
        self._seen: dict[int, Any] = {}  # which keeps them, so that no other has the same identity
        self._hidden = ""

    def held(self, thing: Any, stored: set[str]) -> Iterator[tuple[str, Any]]:
        """Yield what functions, modules, classes and objects of the script hold directly, with names.

        Args:
            stored: attributes that the code sets, which are all that changes in what is of libraries.
        """
        match thing:
            case types.FunctionType() if is_own(thing.__module__):
                names = {name for part in codes(thing.__code__) for name in part.co_names}
                held = thing.__globals__ if names_any(thing.__code__) else names & thing.__globals__.keys()
                yield from ((name, thing.__globals__[name]) for name in sorted(held))
                yield from closure_of(thing)
                yield f"a default of {thing.__name__}", (thing.__defaults__ or (), thing.__kwdefaults__ or {})
                yield from ((name, value) for name, value in vars(thing).items() if name != "__wrapped__")
            case types.FunctionType():
                yield from closure_of(thing)
            case types.GeneratorType(gi_frame=frame):
                yield thing.__name__, (frame.f_lasti if frame else None)
                yield from (frame.f_locals.items() if frame else ())
            case types.ModuleType() if is_own(thing.__name__):
                yield from vars(thing).items()
            case type() if is_own(thing.__module__):
                own = [(name, value) for name, value in vars(thing).items() if not name.startswith("__")]
                yield from ((f"{thing.__name__}.{name}", value) for name, value in own)
            case _ if is_own(type(thing).__module__):
                yield from self._attributes(thing)
            case _ if isinstance(thing, (types.ModuleType, type)) or is_of_tensorflow(type(thing)):
                held = getattr(thing, "__dict__", {})
                yield from ((name, held[name]) for name in sorted(stored & held.keys()))

    def _attributes(self, thing: Any) -> Iterator[tuple[str, Any]]:
        """Yield the attributes of an object of the script; of a layer, not those that only Keras knows."""
        keras = isinstance(thing, (tf.Module, tf.keras.layers.Layer, tf.keras.metrics.Metric))
        yield from (
            (name, value)
            for name, value in [*getattr(thing, "__dict__", {}).items()]
            if not (keras and name.startswith("_") and name not in self._named)
        )
        slots = (name for kind in type(thing).__mro__ for name, value in vars(kind).items()
                 if isinstance(value, types.MemberDescriptorType) and is_own(kind.__module__))  # fmt: skip
        yield from ((name, getattr(thing, name, None)) for name in slots)

    def of(self, value: Any) -> tuple[Any, str]:
        """Return what a value is by now, None if it cannot change, and the class of what cannot be compared in it."""
        self._hidden = ""
        return self._of(value, _LEVELS), self._hidden

    def _of(self, value: Any, levels: int) -> Any:
        kind = type(value)
        if kind in _ATOMS or issubclass(kind, PLAIN):
            return repr(value)
        if not (may_change(value) or is_of_tensorflow(kind)) or kind.__name__ == "_lru_list_elem":
            return None
        if id(value) in self._seen or not levels or len(self._seen) > _MOST:
            return kind.__name__
        self._seen[id(value)] = value
        value = dict(value) if kind is types.MappingProxyType else value
        if isinstance(value, (dict, list, tuple, deque)):
            parts = value.items() if isinstance(value, dict) else value
            some = itertools.islice(parts, 0, None, max(1, len(value) // _LOOKED_AT))
            if isinstance(value, (list, tuple)) and _ATOMS.issuperset(map(type, value)):
                return len(value), repr([*some])
            return len(value), [self._of(each, levels - 1) for each in some]
        if isinstance(value, (set, frozenset)):
            return len(value), hash(frozenset(value)) if len(value) <= _LOOKED_AT else None
        if isinstance(value, np.ma.MaskedArray):
            return self._of((value.data, value.mask), levels - 1)
        if isinstance(value, np.ndarray):
            return _of_array(value)
        if isinstance(value, (random.Random, np.random.RandomState, np.random.Generator)):
            return _of_generator(value)
        if is_own(kind.__module__):
            parts = [(name, self._of(each, levels - 1)) for name, each in self._attributes(value)]
            with suppress(Exception):
                return parts, _of_kind(value)
            return parts
        return self._of_library(value, levels - 1)

    def _of_library(self, value: Any, levels: int) -> Any:
        try:
            if is_of_tensorflow(type(value)):
                return _of_tensorflow(value)
            if hasattr(value, "cache_info"):
                kept = (repr(self._of(each, levels)) for each in gc.get_referents(value))
                return value.cache_info().currsize, sorted(kept)  # their order is that of their last use
            if inspect.isgenerator(value):
                frame = value.gi_frame
                return frame and (frame.f_lasti, self._of(dict(frame.f_locals), levels))
            with suppress(Exception):
                return _of_kind(value)
            told = _told(value)
        except Exception:  # whatever objects of libraries raise
            self._hidden = type(value).__name__
            return object()
        return told if isinstance(told, str) else [self._of(each, levels) for each in told]


def _told(value: Any) -> str | list[Any]:
    """Return what an object of a library tells of itself to be copied or stored, or else its attributes.

    Raises:
        AttributeError: it has none.
    """
    try:
        told = value.__reduce_ex__(4)
    except Exception:  # whatever objects of libraries raise
        return [object.__getattribute__(value, "__dict__")]
    if isinstance(told, str):
        return told
    _, given, state, *further = (*told, None, None)[:5]
    return [given, state, *([*itertools.islice(each or (), _LOOKED_AT)] for each in further)]


def _of_generator(generator: random.Random | np.random.RandomState | np.random.Generator) -> Any:
    if isinstance(generator, random.SystemRandom) or any(generator is each for each in _DRAWN):
        return None
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    state = (
        generator.get_state()
        if isinstance(generator, np.random.RandomState)
        else generator.bit_generator.state
    )
    return repr(state)


def _of_array(array: np.ndarray[Any, Any]) -> Any:
    flat = array.reshape(-1)
    if array.dtype == object:
        return array.shape, repr(flat[:: max(1, flat.size // _LOOKED_AT)].tolist())
    return array.shape, zlib.crc32(flat[:: max(1, array.nbytes // _BYTES_LOOKED_AT)].tobytes())


def _of_tensorflow(value: Any) -> Any:
    """Return the state of an object of TensorFlow that is made to be changed; None of others.

    Raises:
        Exception: it is one whose state cannot be read, such as an iterator.
    """
    if isinstance(value, (tf.random.Generator, tf.keras.random.SeedGenerator)):
        return _of_array(np.asarray(value.state))
    if isinstance(value, tf.Variable):
        return _of_array(value.numpy())
    if isinstance(value, (tf.lookup.experimental.MutableHashTable, tf.lookup.experimental.DenseHashTable)):
        return [_of_array(each.numpy()) for each in value.export()]
    if isinstance(value, (tf.data.Iterator, tf.queue.QueueBase)):
        raise TypeError
    return None


def _of_kind(value: Any) -> Any:
    """Return what an object of a library is by now that has more than Python tells of it.

    Raises:
        Exception: it is none of those.
    """
    heard = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    if any(value is each for each in heard):
        return None
    if isinstance(value, io.IOBase):
        return value.tell() if value.seekable() else None
    if hasattr(value, "iloc"):  # of pandas
        return len(value), _of_array(value.iloc[:: max(1, len(value) // _LOOKED_AT)].to_numpy())
    if hasattr(value, "qsize"):
        return value.qsize()
    if hasattr(value, "total_changes"):  # of sqlite3
        return value.total_changes
    # multiprocessing has buffers in objects of its own.
    held = value.get_obj() if hasattr(value, "get_obj") else getattr(value, "buf", value)
    buffer = memoryview(held).cast("B")
    return (
        type(value).__name__,
        getattr(value, "tell", int)(),
        len(buffer),
        zlib.crc32(buffer[:: max(1, len(buffer) // _BYTES_LOOKED_AT)].tobytes()),
    )
