"""Whether `cache` fits a call."""

from __future__ import annotations

import math
import re
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.first_epoch import cached_bytes, caches, digest, digests, free_memory, repeats
from workloads.driver.fitting.at_once import reused_memory, some
from workloads.driver.fitting.operations import DRAWING, WRITING, kinds_in
from workloads.driver.fitting.reading import changed_between, reads_files, reads_training, unused
from workloads.driver.own_code.children import changing_files
from workloads.driver.own_code.lasting import Watch
from workloads.driver.pipelines import class_of, pipelines, python_in, python_of, taken

_GROWING = "The input may never end, and a cache of it would only grow."
# How many elements are given to Python behind a cache to see whether it changes them.
_CALLED = 20_000
# Datasets that yield an element for each of theirs.
_ONE_TO_ONE = re.compile("(Parallel)?Map|Shuffle|Prefetch|Options|Scan|Cache")


def misfit(call: Call) -> str:
    """Return why a cache would change what training reads, or is of no use; "" if it fits."""
    given = call.arguments["x"]
    if not (call.is_pipeline and any(caches(given))):
        endless = call.is_pipeline and any(class_of(each) == "CacheDataset" for each in pipelines(given))
        return _GROWING if endless else unused()
    if reason := _reads_once(call, given) or reads_training(call):
        return reason
    if call.arguments.get("steps_per_epoch") and any(map(_may_never_end, caches(given))):
        return _GROWING
    before = [each for cache in caches(given) for each in pipelines(cache)]
    if any(getattr(each, "_reshuffle_each_iteration", False) for each in before):
        return "What lies before the cache is shuffled anew in each pass, and would stay as in the first."
    size = cached_bytes(given)
    if size == math.inf:
        return (
            "Nobody knows how large what would be cached is: reading it once takes longer than some seconds."
        )
    if size > free_memory() / 2:
        return f"What would be cached, {size / 2**30:,.1f} GiB, does not fit into half of the free memory."
    watch = Watch(python_of(before))
    if not repeats(given, watch):
        return "What lies before the cache differs from pass to pass, and would stay as in the first."
    if watch.found:
        return f"Python in the pipeline {watch.found} in each pass, and would in the first only."
    kinds = kinds_in(before)
    if watch.drew or any(map(DRAWING.match, kinds)):
        return "What lies before the cache draws random numbers, and would in the first pass only."
    if any(map(WRITING.match, kinds)):
        return "The pipeline prints or writes something for each sample."
    if reason := reused_memory(caches(given)):
        return reason
    if _is_written_into(given):
        return "Python behind the cache changes the arrays that it is given in place, and with them what is kept."
    return changed_between(call, before, kinds) or (_changed_beside() if reads_files(before, kinds) else "")


def _may_never_end(dataset: Any) -> bool:
    """Return whether a pipeline of unknown length may be endless: what repeats, and Python, may; files end."""
    if int(dataset.cardinality()) != tf.data.UNKNOWN_CARDINALITY:
        return False
    parts = list(pipelines(dataset))
    if any(int(each.cardinality()) == tf.data.INFINITE_CARDINALITY for each in parts):
        return True
    kinds = {*map(class_of, parts), *kinds_in(parts)}
    return any("Generator" in kind or "Repeat" in kind for kind in kinds)


def _is_written_into(given: tf.data.Dataset) -> bool:
    """Return whether Python behind a cache changes what it is given, as far as it is called here.

    The arrays of tf.numpy_function are the tensors' own memory: those that a cache keeps, but behind a batch.
    """
    for dataset in pipelines(given):
        functions = [each.function for each in dataset._functions() if python_in(each)]
        if functions and any(map(_gives_what_is_kept, dataset._inputs())):
            (source,) = dataset._inputs()
            for element in some(source, _CALLED):
                tensors, before = taken(source, element), digest(element)
                for function in functions:
                    function(*tensors)
                if digest(element) != before:
                    return True
    return False


def _gives_what_is_kept(dataset: Any) -> bool:
    """Return whether elements of a pipeline may be those that a cache keeps, and not copies."""
    kind = class_of(dataset)
    return kind == "CacheDataset" or (
        not kind.endswith("BatchDataset") and any(map(_gives_what_is_kept, dataset._inputs()))
    )


def observed(call: Call) -> list[list[bytes]]:
    """Return hashes of what caches keep."""
    sources = [source for cache in caches(call.arguments["x"]) for source in cache._inputs()]
    return [digests(each) for each in sources]


def later_input(call: Call) -> str:
    """Return that something may change between epochs of a call what caches of its input keep; "" if nothing may."""
    given = call.arguments["x"] if call.is_pipeline else None
    before = [each for cache in caches(given) for each in pipelines(cache)] if call.is_pipeline else []
    return changed_between(call, before, kinds_in(before))


def _changed_beside() -> str:
    """Return that a process that the script has started may change files; "" if none may."""
    found = changing_files()
    return f"The {found} may change the files that the pipeline reads, while it runs." if found else ""


def _reads_once(call: Call, given: tf.data.Dataset) -> str:
    """Return why a cache is never read, or never whole; "" if it is."""
    after = [dataset for dataset in pipelines(given) if any(caches(dataset))]
    kinds = [*map(class_of, after)]
    if call.epochs == 1 and "RepeatDataset" not in kinds:
        return "The measured call reads its input once, which fills a cache and does not read it."
    for dataset, kind in zip(after, kinds, strict=True):
        (source,) = dataset._inputs() if kind == "TakeDataset" else (dataset,)
        part = int(dataset.cardinality()) != int(source.cardinality())
        if part and not _fills_whole(source) and int(dataset.cardinality()) < _of_a_pass(source):
            return "A part of what would be cached is taken, so the cache is never filled."
    return ""


def _of_a_pass(dataset: Any) -> float:
    """Return how many elements a pipeline makes of one pass over a cache that it repeats; inf if unknown."""
    (source, *others), kind = dataset._inputs(), class_of(dataset)
    if others or not any(caches(source)):
        return math.inf
    if kind == "RepeatDataset":
        known = int(source.cardinality())
        return known if known >= 0 else math.inf
    if kind in ("BatchDataset", "ParallelBatchDataset"):
        whole = _of_a_pass(source)
        return whole if whole == math.inf else math.ceil(whole / int(dataset._batch_size))
    return _of_a_pass(source) if _ONE_TO_ONE.match(kind) else math.inf


def _fills_whole(dataset: Any) -> bool:
    """Return whether the first element of a pipeline comes after all of a cache: a buffer between takes them all."""
    while any(caches(dataset)) and len(dataset._inputs()) == 1:
        (source,) = dataset._inputs()
        if class_of(dataset) == "ShuffleDataset" and 0 < int(source.cardinality()) <= int(
            dataset._buffer_size
        ):
            return any(caches(source))
        dataset = source
    return False
