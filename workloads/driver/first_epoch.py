"""What runs in the first epoch only: what lies before the caches of a pipeline, and what Python keeps."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.own_code.lasting import Watch
from workloads.driver.pipelines import class_of, functions_of, nodes, pipelines, python_of, read_alone

# How much of what lies before a cache is compared between two passes.
_COMPARED, _COMPARED_S = 20_000, 2.0
# How many elements are looked at to see whether something has changed.
_OBSERVED = 256
# How long what lies before a cache is read to see how fast it is; longer if nobody knows how much there is.
_TRIED_S, _TRIED_UNKNOWN_S = 1.0, 5.0


def fill_caches(dataset: tf.data.Dataset, longest_s: float) -> float | None:
    """Read all caches of a pipeline to their ends once.

    Returns:
        Seconds that it took; 0 without a cache, None if it would take longer than `longest_s`.
    """
    with tf.device("CPU:0"):
        found = list(caches(dataset))
        if sum(map(_projected_s, found)) > longest_s:
            return None
        began = time.monotonic()
        for cache in found:
            for _ in cache:
                pass
        return time.monotonic() - began if found else 0.0


def keeps(call: Call) -> bool:
    """Return whether Python of an input keeps what it has read, so that only the first epoch has to read it.

    That is so where reading something new changes it, and reading it once more does not.
    """
    if call.is_loader:
        loader, count = call.arguments["x"], call.arguments["x"].num_batches or 0
        python, new = [loader], next((each for each in range(2, count - 2) if each != count // 2), None)
        read = None if new is None else partial(loader.__getitem__, new)
    else:
        parts = [*pipelines(call.arguments["x"])] if call.is_pipeline else []
        operations = {node.op for each in functions_of(parts) for node in nodes(each.function.graph)}
        # What a generator gives may be gone then.
        python = [] if "GeneratorDataset" in {*operations, *map(class_of, parts)} else python_of(parts)
        read = partial(_read_second, call.arguments["x"])
    if not python or read is None:
        return False
    with Watch(python) as first:
        read()
    with Watch(python) as again:
        read()
    return bool(first.found) and not again.found


def _read_second(dataset: tf.data.Dataset) -> None:
    with tf.device("CPU:0"), read_alone(dataset) as alone:
        for _ in alone.take(2):  # the first has been read
            pass


def read_epoch(call: Call, longest_s: float) -> float:
    """Read an epoch of an input that ends, as far as there is time; return seconds."""
    began, given = time.monotonic(), call.arguments["x"]
    parts = map(given.__getitem__, range(given.num_batches or 0)) if call.is_loader else given
    if call.epoch.batches:
        for _ in itertools.islice(parts, call.epoch.batches):
            if time.monotonic() > began + longest_s:
                break
    return time.monotonic() - began


def cached_bytes(dataset: tf.data.Dataset) -> float:
    """Return the bytes that the caches of a pipeline will hold, from a short reading; infinite if that is unknown."""
    with tf.device("CPU:0"):
        return sum(map(_projected_bytes, caches(dataset)))


def free_memory() -> int:
    """Return the bytes of memory that can still be used, of the container or the host."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            texts = (Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in (limit, used))
            most, current = (int(text) if text.strip() != "max" else free for text in texts)
        except (OSError, ValueError):
            continue
        free = min(free, max(0, most - current))
    return free


def repeats(dataset: tf.data.Dataset, watch: Watch) -> bool:
    """Return whether what lies before the caches of a pipeline is the same in each pass, as far as it is read here.

    Passes are compared that begin anew, as Keras' epochs do, and that follow each other within one iterator, as those
    of a dataset that repeats itself.

    Args:
        watch: is entered for one more pass. What earlier passes keep for later ones is there by then.
    """
    with tf.device("CPU:0"):
        sources = [source for cache in caches(dataset) for source in cache._inputs()]
        return all(_repeats(source, watch) for source in sources)


def digests(dataset: tf.data.Dataset, most: int = _OBSERVED) -> list[bytes]:
    """Return the hashes of the first elements of a pipeline, as many as are read in a moment."""
    found: list[bytes] = []
    ends_s = time.monotonic() + _COMPARED_S
    for element in dataset.take(most):
        found.append(digest(element))
        if time.monotonic() > ends_s:
            break
    return found


def _repeats(source: tf.data.Dataset, watch: Watch) -> bool:
    first = digests(source, _COMPARED)
    alike = source.take(len(first))
    if first and [*map(digest, alike.repeat(2))] != first * 2:
        return False
    with watch:
        for _ in alike:
            pass
    return True


def digest(element: Any) -> bytes:
    """Return the hash of the values of an element: of tensors or arrays."""
    result = hashlib.sha256()
    for part in tf.nest.flatten(element, expand_composites=True):
        values = np.asarray(part)
        result.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return result.digest()


def caches(dataset: Any) -> Iterator[Any]:
    """Yield the caches of a pipeline that end, first the one nearest to the source."""
    for each in pipelines(dataset):
        ends = int(each.cardinality()) != tf.data.INFINITE_CARDINALITY
        if ends and class_of(each) == "CacheDataset":
            yield each


def _projected_s(cache: Any) -> float:
    """Return how long filling a cache takes, in seconds, from a short reading; infinite if that is unknown."""
    began = time.monotonic()
    return _projected(cache, lambda _: time.monotonic() - began)


def _projected_bytes(cache: Any) -> float:
    size = 0

    def added(element: Any) -> float:
        nonlocal size
        for part in map(np.asarray, tf.nest.flatten(element, expand_composites=True)):
            size += sum(map(len, part.ravel())) if part.dtype == object else part.nbytes
        return size

    return _projected(cache, added)


def _projected(cache: Any, amount: Callable[[Any], float]) -> float:
    """Return what something amounts to once a cache is full; infinite if a short reading does not tell.

    Args:
        amount: is called with each element; returns how much it is so far.
    """
    count = int(cache.cardinality())
    ends_s = time.monotonic() + (_TRIED_S if count >= 0 else _TRIED_UNKNOWN_S)
    read, so_far = 0, 0.0
    (source,) = cache._inputs()
    for element in source:
        read, so_far = read + 1, amount(element)
        if time.monotonic() > ends_s:
            return so_far / read * count if count >= 0 else math.inf
    return so_far
