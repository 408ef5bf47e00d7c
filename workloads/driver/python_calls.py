"""Measure the time in Python functions of a compiled step and in a workload's callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from statistics import median
from typing import Any
from unittest.mock import patch

import tensorflow as tf

# Keras calls these around every batch.
_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


# Calls this many times as long as the function's median are those of every so many batches, such as saving.
_LONG = 5


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
        limits = [_LONG * median(calls) if calls else 0.0 for calls in self._calls_ns]
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
            for name in _HOOKS:
                hook = getattr(callback, name)
                # LambdaCallback sets functions of the instance, not of its class.
                if getattr(hook, "__func__", hook) is not getattr(tf.keras.callbacks.Callback, name):
                    setattr(callback, name, self.timed(hook))
        return own
