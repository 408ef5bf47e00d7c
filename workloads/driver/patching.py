"""Temporarily replace functions of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

import tensorflow as tf


@contextmanager
def replaced(owner: Any, **makers: Callable[[Any], Any]) -> Iterator[None]:
    """Replace attributes of `owner` inside the block; makers map original functions to new ones."""
    before = {name: getattr(owner, name) for name in makers}
    try:
        for name, make in makers.items():
            setattr(owner, name, make(before[name]))
        yield
    finally:
        for name, function in before.items():
            setattr(owner, name, function)


def parallel_maps() -> AbstractContextManager[None]:
    """Use AUTOTUNE in maps and interleaves without num_parallel_calls."""

    def parallel(position: int) -> Callable[[Any], Any]:
        def make(method: Any) -> Any:
            @wraps(method)
            def call(self: Any, *args: Any, **named: Any) -> Any:
                if len(args) <= position and named.get("num_parallel_calls") is None:
                    named["num_parallel_calls"] = tf.data.AUTOTUNE
                return method(self, *args, **named)

            return call

        return make

    # The positions of num_parallel_calls.
    return replaced(tf.data.Dataset, map=parallel(1), interleave=parallel(3))
