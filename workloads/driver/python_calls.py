"""Measure the time in a script's own Python: functions of a compiled step, callbacks, loaders."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from statistics import median
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
    callbacks: Iterable[Any], first: int, count: int, batches: int, warn: Callable[[str], None]
) -> None:
    """Let callbacks see only the `count` epochs from `first` on, again and again.

    Measuring may take more epochs than a script trains, and its schedules may know no others. A hook that fails after
    as many batches as the script trains is left out from there on.
    """

    def repeating(hook: Callable[..., Any]) -> Callable[..., Any]:
        return lambda epoch, *logs, **named: hook(first + (epoch - first) % count, *logs, **named)

    def telling(hook: Callable[..., Any]) -> Callable[..., Any]:
        return lambda params: hook({**params, "epochs": first + count})

    def lasting(hook: Callable[..., Any], name: str) -> Callable[..., Any]:
        calls = 0

        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            if calls < 0:
                return None
            calls += 1
            try:
                return hook(*args, **named)
            except Exception:
                if calls <= batches:
                    raise
                calls = -1
                warn(f"{name} knows {batches} batches; measuring takes more, and goes on without it.")

        return call

    for callback in callbacks:
        for name, hook in _own_hooks(callback):
            setattr(callback, name, lasting(hook, f"{type(callback).__name__}.{name}"))
        for name in ("on_epoch_begin", "on_epoch_end"):
            setattr(callback, name, repeating(getattr(callback, name)))
        callback.set_params = telling(callback.set_params)


def profile(batches: Iterator[Any], rows: int, seconds: float) -> dict[str, float]:
    """Return the seconds per sample of the functions that make batches, in descending order.

    Args:
        batches: the loader's batches, made in this thread.
        rows: samples per batch.
        seconds: how long to measure; at least one batch is made.
    """
    profiler = cProfile.Profile()
    made, until = 0, time.monotonic() + seconds
    while not made or time.monotonic() < until:
        profiler.enable()
        batch = next(batches, None)
        profiler.disable()
        if batch is None:
            break
        made += 1
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    callees: dict[_Function, dict[_Function, float]] = {}
    for function, entry in stats.items():
        for caller, (_, _, _, seconds_there) in entry[4].items():
            callees.setdefault(caller, {})[function] = seconds_there
    total = {function: entry[3] for function, entry in stats.items()}
    if not made or not total:
        return {}
    return {
        name: each / made / rows
        for name, each in _split(max(total, key=lambda key: total[key]), total, callees)
    }


def _split(
    root: _Function, total: Mapping[_Function, float], callees: Mapping[_Function, Mapping[_Function, float]]
) -> list[tuple[str, float]]:
    """Return the times of the functions in which the work divides, and of what is left."""
    node, whole, seen = root, total[root], {root}
    while others := {key: value for key, value in callees.get(node, {}).items() if key not in seen}:
        largest = max(others, key=lambda key: others[key])
        # A function that spends this share of its time in one other function is replaced by that one.
        if others[largest] < 0.7 * whole or not callees.get(largest):
            break
        node, whole = largest, others[largest]
        seen.add(node)
    parts = {key: value for key, value in callees.get(node, {}).items() if value >= LISTED * total[root]}
    # What a method spends in built-in functions is its own: nobody wrote those.
    named: defaultdict[str, float] = defaultdict(float)
    for key, value in parts.items():
        named[_label(node if key[0] == "~" and node[0] != "~" else key)] += value
    listed = sorted(named.items(), key=lambda each: -each[1])
    rest = total[root] - sum(parts.values())
    return [*listed, *([(f"rest of {_label(node)}", rest)] if rest >= LISTED * total[root] else [])]


def _label(function: _Function) -> str:
    file, line, name = function
    return name.strip("<>") if file == "~" else f"{name}, {Path(file).name}:{line}"
