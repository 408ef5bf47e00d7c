"""What a workload's own pipeline does otherwise while it is put together: parallel maps, and its caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

# Methods that take num_parallel_calls and work one element after the other without it.
SERIAL_BY_DEFAULT = ("map", "interleave")
CACHES = ("CacheDataset",)


@contextmanager
def asked_for(params: Mapping[str, Any]) -> Iterator[None]:
    """Let maps without a num_parallel_calls of their own have AUTOTUNE, where `params` say so."""
    if not params["parallel_maps"]:
        yield
        return
    kind = tf.data.Dataset
    before = {name: getattr(kind, name) for name in SERIAL_BY_DEFAULT}

    def parallel(method: Any) -> Any:
        def call(self: Any, *words: Any, num_parallel_calls: Any = None, **named: Any) -> Any:
            at = 1 if method is before["map"] else 3  # where it stands among the positional arguments
            if num_parallel_calls is None and len(words) <= at:
                num_parallel_calls = tf.data.AUTOTUNE
            if num_parallel_calls is not None:
                named["num_parallel_calls"] = num_parallel_calls
            return method(self, *words, **named)

        return call

    try:
        for name, method in before.items():
            setattr(kind, name, parallel(method))
        yield
    finally:
        for name, method in before.items():
            setattr(kind, name, method)


@contextmanager
def caches_replaced(elements: int) -> Iterator[None]:
    """Let caches hold the first so many elements only, in memory; with 0 let there be none.

    Without caches a pipeline does what it does in its first epoch; with small ones every later epoch is soon
    reached. Both need no file, so that variants do not meet in one.
    """
    kind = tf.data.Dataset
    before = kind.cache

    def cache(self: Any, filename: Any = "", name: Any = None) -> Any:
        del filename, name
        return before(self.take(elements)) if elements else self

    try:
        kind.cache = cache
        yield
    finally:
        kind.cache = before


def has_cache(dataset: Any) -> bool:
    """Tell whether a pipeline has a cache somewhere; False where TensorFlow does not let it be seen."""
    if type(dataset).__name__ in CACHES:
        return True
    inputs = getattr(dataset, "_inputs", None)
    return any(has_cache(one) for one in (inputs() if inputs else ()))
