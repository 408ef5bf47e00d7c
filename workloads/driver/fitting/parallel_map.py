"""Whether `parallel-map` fits a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.first_epoch import digest
from workloads.driver.fitting import prefetch
from workloads.driver.fitting.at_once import SETS_SEEDS, alike, reused_memory, some
from workloads.driver.fitting.operations import (
    CHANGING,
    DRAWING,
    WRITING,
    captured,
    is_seed,
    kinds_in,
    kinds_of,
    resources_of,
)
from workloads.driver.fitting.reading import changed_in_step, outlives_epochs, reads_training, unused
from workloads.driver.own_code.callbacks import around_batches
from workloads.driver.own_code.changing import sets_seeds
from workloads.driver.own_code.lasting import Watch
from workloads.driver.pipelines import PYTHON, class_of, datasets_of, given, nodes, python_in, taken

# Elements of a dataset that a function makes, which are compared.
_ELEMENTS = 8


def misfit(call: Call) -> str:
    """Return why calls of a map at once would give something else; "" if they would not."""
    datasets = [*datasets_of(call.arguments)]
    if not any("Parallel" in class_of(each) for each in datasets):
        return unused()
    # Elements that are prepared ahead wait past the end of an epoch only if the iterator does.
    ahead = outlives_epochs(call) or around_batches(call)
    if reason := (
        reads_training(call)
        or (ahead and prefetch.misfit(call))
        or changed_in_step(call, datasets, kinds_in(datasets))
    ):
        return reason
    found = [
        (dataset, [(function, kinds_of(function)) for function in dataset._functions()])
        for dataset in datasets
    ]
    # What stays one call after another is in another order only beside functions that may read what it changes.
    beside = any(
        _at_once(dataset, kinds) and (kinds & PYTHON or resources_of(function))
        for dataset, functions in found
        for function, kinds in functions
    )
    for dataset, functions in found:
        name = type(dataset).__name__
        for function, kinds in functions:
            if not beside and not _at_once(dataset, kinds):
                continue
            if _changes(function, kinds):
                return "A function of the pipeline changes what its other calls read."
            if _draws_twice(function):
                return "A function of the pipeline draws the same numbers in several places, which calls at once mix."
            if not kinds & PYTHON:
                continue
            if sets_seeds(python_in(function)):
                return SETS_SEEDS.format("A function of the pipeline")
            inner = any("ParallelMap" in kind for kind in kinds)
            called = "ParallelMap" in name or "ParallelInterleave" in name
            watch = Watch(python_in(function))
            if inner or (called and not _alike_at_once(dataset, function, watch)):
                return "A function of the pipeline gives other values if it is called several times at once."
            if watch.found:
                return f"A function of the pipeline {watch.found}, which it would in another order."
    return ""


def after(call: Call) -> str:
    """Return that elements that wait would change; "" if they would not."""
    return reused_memory(each for each in datasets_of(call.arguments) if "Parallel" in class_of(each))


# What is read ahead into the next epoch.
observed = prefetch.observed


def _draws_twice(function: Any) -> bool:
    """Return whether operations of a function have the same seed, and so draw alike, call by call."""
    seeds = Counter(
        (node.attr["seed"].i, node.attr["seed2"].i)
        for node in nodes(function.function.graph)
        if DRAWING.match(node.op) and "seed2" in node.attr
    )
    return any(count > 1 for seed, count in seeds.items() if any(seed))


def _at_once(dataset: Any, kinds: Iterable[str]) -> bool:
    """Return whether a dataset may call a function with these operations, or one in it, several times at once."""
    return "Parallel" in type(dataset).__name__ or any("ParallelMap" in kind for kind in kinds)


def _changes(function: Any, kinds: Iterable[str]) -> bool:
    """Return whether a function changes what its other calls read; not the states of random layers of Keras."""
    changing = {kind for kind in kinds if CHANGING.search(kind) or WRITING.match(kind)}
    drawing = all(map(is_seed, captured(function)))
    return bool(changing - ({"AssignVariableOp"} if drawing else set()))


def _alike_at_once(dataset: Any, function: Any, watch: Watch) -> bool:
    """Return whether calls of a function at once give what they give one by one, if that is always the same."""
    with tf.device("CPU:0"):
        (source,) = dataset._inputs()
        elements = [taken(source, each) for each in some(source)]
        return alike(lambda number: _digest(given(function, elements[number])), len(elements), watch)


def _digest(made: Any) -> bytes:
    """Return the hash of what a function has made: of the first elements of a dataset, as one for interleave is."""
    return digest([*islice(made, _ELEMENTS)] if isinstance(made, tf.data.Dataset) else made)
