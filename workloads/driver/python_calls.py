"""Measure the time in a script's own Python: functions of a compiled step, callbacks, loaders."""

from __future__ import annotations

import sys
import sysconfig
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest.mock import patch

import tensorflow as tf

# Keras calls these around every batch.
_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
# And these around every epoch and its validation.
_EPOCH_HOOKS = ("on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end")
# Functions below this share of the time are not listed.
LISTED = 0.05

_Function = tuple[str, int, str]
_THREAD: _Function = ("", 0, "iteration")
_STANDARD = sysconfig.get_path("stdlib")


class Stopwatch:
    """Time the calls of functions."""

    def __init__(self) -> None:
        self._calls_ns: list[list[int]] = []

    @property
    def wrapped(self) -> bool:
        """Whether a function is timed."""
        return bool(self._calls_ns)

    @property
    def total_ns(self) -> int:
        """Duration of all calls."""
        return sum(map(sum, self._calls_ns))

    def recurring_ns(self, rounds: int) -> float:
        """Return how long calls take in each of so many rounds, without the first, in which they trace and compile."""
        timed = [calls for calls in self._calls_ns if calls]
        return sum(fmean(calls[1:] or calls) * min(1.0, len(calls) / rounds) for calls in timed)

    @property
    def rare_ns(self) -> float:
        """Duration of the calls that are much longer than most of their function."""
        # Calls this many times as long as the function's median are those of every so many batches, such as saving.
        limits = [5 * median(calls) if calls else 0.0 for calls in self._calls_ns]
        return sum(
            each
            for calls, limit in zip(self._calls_ns, limits, strict=True)
            for each in calls
            if each > limit
        )

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with timed calls."""
        calls: list[int] = []
        self._calls_ns.append(calls)

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            start = time.monotonic_ns()
            try:
                return function(*args, **named)
            finally:
                calls.append(time.monotonic_ns() - start)

        return call

    @contextmanager
    def python_functions(self) -> Iterator[None]:
        """Time the functions passed to tf.numpy_function and tf.py_function inside the block."""

        def timing(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def make(func: Callable[..., Any], *args: Any, **named: Any) -> Any:
                return original(self.timed(func), *args, **named)

            return make

        names = ("numpy_function", "py_function")
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(patch.object(tf, name, timing(getattr(tf, name))))
            yield

    def callbacks(self, own: Any) -> Any:
        """Time the per-batch methods of callbacks, and return the callbacks."""
        for callback in own:
            for name, hook in _own_hooks(callback):
                setattr(callback, name, self.timed(hook))
        return own

    def epochs_of(self, callback: Any) -> None:
        """Time the methods of a callback around epochs and validations."""
        for name, hook in _own_hooks(callback, _EPOCH_HOOKS):
            setattr(callback, name, self.timed(hook))


def _own_hooks(callback: Any, names: Sequence[str] = _HOOKS) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the methods of these names that a callback has of its own."""
    for name in names:
        hook = getattr(callback, name)
        # LambdaCallback sets functions of the instance, not of its class.
        if getattr(hook, "__func__", hook) is not getattr(tf.keras.callbacks.Callback, name):
            yield name, hook


def repeat_epochs(
    callbacks: Iterable[Any],
    first: int,
    count: int,
    batches: int,
    model: Any,
    warn: Callable[[str], None],
    stopped: Callable[[], None],
) -> None:
    """Let callbacks see only the `count` epochs from `first` on, again and again.

    Measuring may take more epochs than a script trains, and its schedules may know no others. A hook that fails after
    as many batches, or epochs, as the script trains is left out from there on, and none ends an epoch of `model` before
    its last batch, as one does that limits the time of a training; `stopped` is called then.
    """

    def repeating(hook: Callable[..., Any]) -> Callable[..., Any]:
        return lambda epoch, *logs, **named: hook(first + (epoch - first) % count, *logs, **named)

    def telling(hook: Callable[..., Any]) -> Callable[..., Any]:
        return lambda params: hook({**params, "epochs": first + count})

    def lasting(hook: Callable[..., Any], name: str, most: int, unit: str) -> Callable[..., Any]:
        calls = 0

        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            if calls < 0:
                return None
            calls += 1
            try:
                return hook(*args, **named)
            except Exception:
                if calls <= most:
                    raise
                calls = -1
                warn(f"{name} knows {most} {unit}; measuring takes more, and goes on without it.")

        return call

    def unstopped(hook: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            stops = model.stop_training
            try:
                return hook(*args, **named)
            finally:
                if model.stop_training and not stops:
                    stopped()
                model.stop_training = stops

        return call

    for callback in callbacks:
        for name, hook in _own_hooks(callback):
            own = f"{type(callback).__name__}.{name}"
            setattr(callback, name, unstopped(lasting(hook, own, batches, "batches")))
        for name in ("on_epoch_begin", "on_epoch_end"):
            own = f"{type(callback).__name__}.{name}"
            setattr(callback, name, repeating(lasting(getattr(callback, name), own, count, "epochs")))
        callback.set_params = telling(callback.set_params)


def profile(batches: Iterator[Any], rows: int, seconds: float) -> dict[str, float]:
    """Return the seconds per sample of the functions that make batches, in descending order.

    Args:
        batches: the loader's batches, made in this thread.
        rows: samples per batch.
        seconds: how long to measure; at least one batch is made.
    """
    profiler, made, until = _Profiler(), 0, time.monotonic() + seconds
    while not made or time.monotonic() < until:
        batch = profiler.next_of(batches)
        if batch is None:
            break
        made += 1
    if not made:
        return {}
    return {name: each / made / rows for name, each in _split(profiler.seconds)}


class _Profiler:
    """Time the Python functions that this thread calls.

    cProfile of Python 3.12 and later takes calls in other threads, such as those that wait for workers, for this one's.
    """

    def __init__(self) -> None:
        # Seconds by caller and function; the first caller stands for the thread.
        self.seconds: defaultdict[_Function, defaultdict[_Function, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._active: list[tuple[_Function, float]] = []

    def next_of(self, batches: Iterator[Any]) -> Any:
        """Return the next batch, made in this thread, or None after the last."""
        self._active = [(_THREAD, time.perf_counter())]
        sys.setprofile(self._profile)
        try:
            return next(batches, None)
        finally:
            sys.setprofile(None)
            while self._active:
                self._end()

    def _profile(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            function = (code.co_filename, code.co_firstlineno, code.co_name)
            self._active.append((function, time.perf_counter()))
        elif event == "return" and len(self._active) > 1:
            self._end()

    def _end(self) -> None:
        now = time.perf_counter()
        function, began = self._active.pop()
        # Time in a function that is called by itself counts once.
        if all(each != function for each, _ in self._active):
            caller = self._active[-1][0] if self._active else _THREAD
            self.seconds[caller][function] += now - began


def _split(seconds: Mapping[_Function, Mapping[_Function, float]]) -> list[tuple[str, float]]:
    """Return the times of the functions in which the work divides, and of what is left."""
    node, seen = _THREAD, {_THREAD}
    total = whole = seconds[_THREAD][_THREAD]
    while True:
        # What a function of the standard library calls tells a user nothing.
        called = {} if _is_standard(node) else seconds.get(node, {})
        others = {key: value for key, value in called.items() if key not in seen}
        largest = max(others, key=lambda key: others[key], default=node)
        # A function that spends this share of its time in one other function is replaced by that one, unless that would
        # lead from the script into a package.
        leaves = node is not _THREAD and _is_installed(largest) and not _is_installed(node)
        if others.get(largest, 0.0) < 0.7 * whole or leaves:
            break
        node, whole = largest, others[largest]
        seen.add(node)
    parts: defaultdict[str, float] = defaultdict(float)
    for key, value in others.items():
        if value >= LISTED * total:
            parts[_label(key)] += value
    listed = sorted(parts.items(), key=lambda each: -each[1])
    rest = total - sum(parts.values())
    if rest >= LISTED * total:
        listed.append((f"rest of {_label(node)}" if listed else _label(node), rest))
    return listed


def _is_standard(function: _Function) -> bool:
    return function[0].startswith(_STANDARD) and not _is_installed(function)


def _is_installed(function: _Function) -> bool:
    return "-packages" in function[0]


def _label(function: _Function) -> str:
    file, line, name = function
    return f"{name}, {Path(file).name}:{line}" if file else name
