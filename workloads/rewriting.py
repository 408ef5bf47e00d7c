"""Functions of TensorFlow put in the place of others for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

import tensorflow as tf


@contextmanager
def replaced(owner: Any, **makers: Callable[[Any], Any]) -> Iterator[None]:
    """Put other functions in the place of an owner's: name -> what makes the new one of the old one."""
    before = {name: getattr(owner, name) for name in makers}
    try:
        for name, make in makers.items():
            setattr(owner, name, make(before[name]))
        yield
    finally:
        for name, function in before.items():
            setattr(owner, name, function)


def parallel_maps() -> AbstractContextManager[None]:
    """Let maps and interleaves without a num_parallel_calls of their own have AUTOTUNE."""

    def parallel(place: int) -> Callable[[Any], Any]:
        def make(method: Any) -> Any:
            @wraps(method)
            def call(self: Any, *words: Any, **named: Any) -> Any:
                if len(words) <= place and named.get("num_parallel_calls") is None:
                    named["num_parallel_calls"] = tf.data.AUTOTUNE
                return method(self, *words, **named)

            return call

        return make

    # Where num_parallel_calls stands among the positional arguments.
    return replaced(tf.data.Dataset, map=parallel(1), interleave=parallel(3))
