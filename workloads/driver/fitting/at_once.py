"""Whether functions give the same in any order, and if they are called several times at once."""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf

from workloads.driver.first_epoch import digest
from workloads.driver.own_code.lasting import Watch
from workloads.driver.pipelines import pipelines, python_of

SETS_SEEDS = (
    "{} sets the state of a random generator, from which calls at once would draw each other's numbers."
)
# Elements and batches that are made twice to compare them, for so many seconds at most.
COMPARED, _COMPARED_S = 64, 1.0
_AT_ONCE = 16


def alike(made: Callable[[int], bytes], count: int, watch: Watch) -> bool:
    """Return whether calls give the same in any order and at once, as far as they can be repeated.

    Args:
        watch: is entered for calls in another order. What first calls keep for later ones is there by then.
    """
    with _random_by_thread() as seed:

        def seeded(number: int) -> bytes:
            seed(number)
            return made(number)

        one = [seeded(number) for number in some(range(count))]
        numbers = range(len(one))
        with watch:
            reverse = [seeded(number) for number in reversed(numbers)]
        if reverse != one[::-1]:
            return False  # also where TensorFlow draws: what it draws at once cannot be compared
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return all([*threads.map(seeded, numbers)] == one for _ in range(2))


class _OfThread(threading.local):
    """Random generators of a thread."""


@contextmanager
def _random_by_thread() -> Iterator[Callable[[int], None]]:
    """Let the functions of random and numpy.random draw from generators of each thread.

    Yields:
        What seeds those of the calling thread.
    """
    own = _OfThread()

    def seed(number: int) -> None:
        own.numpy, own.python = np.random.RandomState(number), random.Random(number)  # noqa: S311

    def drawing(kind: str, name: str) -> Callable[..., Any]:
        def draw(*args: Any, **named: Any) -> Any:
            if not hasattr(own, kind):
                seed(0)
            if name == "seed":
                return None  # by how many batches came before, say: another order draws other numbers
            return getattr(getattr(own, kind), name)(*args, **named)

        return draw

    with ExitStack() as patches:
        for module, kind, made in (
            (np.random, "numpy", np.random.RandomState),
            (random, "python", random.Random),
        ):
            for name in dir(made):
                if not name.startswith("_") and inspect.isroutine(getattr(module, name, None)):
                    patches.enter_context(patch.object(module, name, drawing(kind, name)))
        yield seed


def reused_memory(datasets: Iterable[Any]) -> str:
    """Return that Python gives these datasets memory that it fills again for later elements; "" if it does not.

    TensorFlow takes an array of Python without a copy where it lies at a multiple of 64 bytes.
    """
    for source in (each for dataset in datasets for each in dataset._inputs()):
        if python_of(pipelines(source)):
            with tf.device("CPU:0"):
                held = [(element, digest(element)) for element in some(source)]
            if any(digest(element) != first for element, first in held):
                return "Python in the pipeline fills the same memory again for each element: one that waits changes."
    return ""


def some(values: Iterable[Any], most: int = COMPARED) -> Iterator[Any]:
    """Yield the first values, as many as are made in a moment."""
    ends_s = time.monotonic() + _COMPARED_S
    for value, _ in zip(values, range(most), strict=False):
        yield value
        if time.monotonic() > ends_s:
            return
