"""What an input reads that something else may change, so that it matters when it reads."""

from __future__ import annotations

import inspect
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import debug_mode

from workloads.driver.call import Call
from workloads.driver.fitting.operations import (
    CHANGING,
    UNORDERED,
    captured,
    changes_resources,
    draws,
    kinds_in,
    kinds_of,
    resources_of,
)
from workloads.driver.own_code.beside import changing, step_changes, threads
from workloads.driver.own_code.changing import TO_FILES, TO_VARIABLES
from workloads.driver.own_code.reached import reached
from workloads.driver.pipelines import class_of, datasets_of, functions_of, python_in, python_of

# Operations that read what others, or Python, may change.
_READING = re.compile(
    "ReadVariableOp|ResourceGather|LookupTableFind|ReadFile|TFRecord|TextLine|FixedLengthRecord|CSV|Csv|Sql|Snapshot|"
    "MatchingFiles|LMDB"
)
# Operations of _READING that read no file.
_VARIABLES = {"ReadVariableOp", "ResourceGather", "LookupTableFind"}
# Objects that training may change.
_OF_TRAINING = (
    tf.keras.Model, tf.keras.optimizers.Optimizer, tf.keras.callbacks.Callback, tf.keras.callbacks.CallbackList,
    tf.keras.metrics.Metric, tf.keras.Variable,
)  # fmt: skip
_CLOCKS = (time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns,
           time.process_time, time.process_time_ns, time.thread_time, time.clock_gettime, time.clock_gettime_ns,
           time.localtime, time.gmtime, time.ctime, time.strftime, os.times)  # fmt: skip
_CLOCKS_OF_CLASSES = {"now", "today", "utcnow"}


def python_of_input(call: Call) -> list[Any]:
    """Return from where the Python of an input is reached: a loader or generator, and functions of pipelines."""
    given = call.arguments.get("x")
    own = [] if given is None or isinstance(given, (tf.data.Dataset, np.ndarray, tf.Tensor)) else [given]
    return [*own, *python_of(datasets_of(call.arguments))]


def unused() -> str:
    """Return why the call's pipeline has no trace of what a remedy adds."""
    if debug_mode.DEBUG_MODE:
        return "tf.data runs in its debug mode, one element after another: leave enable_debug_mode() out."
    return "It changes a pipeline that is not the input of the measured call."


def changed_in_step(call: Call, datasets: Sequence[Any], kinds: set[str]) -> str:
    """Return that a step may change what pipelines read, which would read it earlier; "" if it may not.

    Args:
        kinds: of the operations in the pipelines' functions.
    """
    python = python_of(datasets)
    names = TO_FILES if reads_files(datasets, kinds) else set[str]()
    return step_changes(call, "what the pipeline reads", python, names) if python or names else ""


def reads_training(call: Call) -> str:
    """Return that a pipeline reads variables that training changes; "" if it reads none."""
    model = call.model
    changing = {
        id(each.value.handle)
        for each in (*model.variables, *_variables(model))
        if hasattr(each.value, "handle")
    }
    own_step = type(model).train_step is not tf.keras.Model.train_step
    for function in functions_of(datasets_of(call.arguments)):
        read = captured(function)
        if any(id(each) in changing for each in read) or (own_step and read):
            return "The pipeline reads variables that training changes, and would read them at another time."
        if own_step and resources_of(function) and changes_resources(call):
            return (
                "The pipeline reads a table or a queue that the step may change, and would at another time."
            )
        if "Timestamp" in kinds_of(function):
            return "The pipeline reads the time (tf.timestamp), and would read it at another time."
        if found := live(call, python_in(function)):
            return f"Python in the pipeline may read {found}, and would read it at another time."
    return ""


def live(call: Call, starts: Iterable[Any], *, clock: bool = True) -> str:
    """Return what of a training, or the clock, Python code may use; "" if it uses none of them."""
    is_part = part_of_training(call)
    for thing in reached(*starts):
        if isinstance(thing, tf.Variable):
            return "a tf.Variable"
        if is_part(thing):
            return f"a {type(thing).__name__}, which training changes"
        if clock and (name := clock_of(thing)):
            return f"the time ({name})"
    return ""


def watched(call: Call) -> str:
    """Return that a thread of the script may read, as a training goes on, what each step changes; "" if none may."""
    found = live(call, threads(), clock=False)
    return found and f"A thread of the script may read {found}, and would see it after many steps only."


def clock_of(thing: Any) -> str:
    """Return the name of a function that tells the time; "" if the thing is none."""
    if not inspect.isroutine(thing):
        return ""
    name = str(getattr(thing, "__name__", ""))
    of_class = name in _CLOCKS_OF_CLASSES and isinstance(getattr(thing, "__self__", None), type)
    return name if of_class or any(thing is each for each in _CLOCKS) else ""


def part_of_training(call: Call) -> Callable[[Any], bool]:
    """Return what tells whether a thing is the model, a layer of it, or another object that training may change."""
    layers = {id(each) for each in call.model._flatten_layers()}
    return lambda thing: isinstance(thing, _OF_TRAINING) or id(thing) in layers


def _variables(model: Any) -> Iterator[Any]:
    """Yield the variables of a model's optimizer and metrics."""
    yield from getattr(getattr(model, "optimizer", None), "variables", ())
    for metric in model.metrics:
        yield from metric.variables


def changed_between(call: Call, datasets: Sequence[Any], kinds: set[str]) -> str:
    """Return that something of the script's may change between epochs what pipelines read; "" if nothing may.

    Args:
        kinds: of the operations in the pipelines' functions.
    """
    python = python_of(datasets)
    names = TO_FILES if reads_files(datasets, kinds) else set[str]()
    if python or not _VARIABLES.isdisjoint(_reading(kinds)):
        names = names | TO_VARIABLES
    return changing(call, "what the pipeline reads", python, names) if names else ""


def reads_files(datasets: Sequence[Any], kinds: set[str]) -> bool:
    """Return whether pipelines may read files, as Python may."""
    found = _reading(kinds | {type(each).__name__ for each in datasets})
    return bool(found - _VARIABLES) or bool(python_of(datasets))


def _reading(kinds: Iterable[str]) -> set[str]:
    return {each.group() for each in map(_READING.search, kinds) if each}


def depends_on_time(call: Call) -> bool:
    """Return whether what a call's pipelines give depends on when they compute it.

    Calls at once draw in any order, and a pipeline that goes on reads variables before an epoch ends.
    """
    for dataset in datasets_of(call.arguments):
        kinds = kinds_in([dataset])
        if "Parallel" in class_of(dataset) and (
            kinds & UNORDERED or draws(kinds) or any(map(CHANGING.search, kinds)) or _is_unordered(dataset)
        ):
            return True
    return outlives_epochs(call) and "ReadVariableOp" in kinds_in(datasets_of(call.arguments))


def _is_unordered(dataset: Any) -> bool:
    """Return whether a dataset gives what is ready first: by its own argument, or the pipeline's options."""
    own = getattr(dataset, "_deterministic", "default")
    return own == "false" or (own == "default" and dataset.options().deterministic is False)


def outlives_epochs(call: Call) -> bool:
    """Return whether an iterator goes on in the next epoch, with what it has read ahead."""
    return bool(call.arguments.get("steps_per_epoch")) or not call.epoch.ends
