"""Whether a remedy fits the call that was taken, as only the running script tells.

The remedies in harness/fixes read a script's text. Here are its objects: callbacks whose classes may come from
anywhere, functions of a pipeline as TensorFlow has traced them, a step that is traced twice.
"""

from __future__ import annotations

import ast
import copy
import dis
import inspect
import math
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import debug_mode

from workloads.driver import script
from workloads.driver.beside import changing, step_changes
from workloads.driver.call import Call
from workloads.driver.callbacks import (
    acts_every,
    around_batches,
    is_keras,
    methods_of,
    reads_params,
)
from workloads.driver.changing import (
    TO_FILES,
    TO_VARIABLES,
    changes_any,
    names_in,
    own_code,
    sets_seeds,
    shared,
)
from workloads.driver.children import changing_files
from workloads.driver.first_epoch import cached_bytes, caches, digest, free_memory, repeats
from workloads.driver.lasting import Watch
from workloads.driver.own_step import own_of_step, parts_of, steps_of
from workloads.driver.pipelines import (
    PYTHON,
    class_of,
    datasets_of,
    functions_of,
    nodes,
    pipelines,
    python_in,
    python_of,
)
from workloads.driver.reached import codes, is_own, reached
from workloads.driver.sites import where

# Operations of which calls at once take what comes next in any order: Python, and the state of a tf.random.Generator.
_UNORDERED = PYTHON | {"RngReadAndSkip"}
# Operations that change what other calls of a function read.
_CHANGING = re.compile(
    "Assign|ResourceScatter|LookupTable(Insert|Import|Remove)|Queue|Stack(Push|Pop)|IteratorGetNext"
)
# Operations that read what others, or Python, may change.
_READING = re.compile(
    "ReadVariableOp|ResourceGather|LookupTableFind|ReadFile|TFRecord|TextLine|FixedLengthRecord|CSV|Csv|Sql|Snapshot|"
    "MatchingFiles|LMDB"
)
# Operations that write what a user reads.
_WRITING = re.compile("^(Print|Write|Save)")
# Operations of _READING that read no file.
_VARIABLES = {"ReadVariableOp", "ResourceGather", "LookupTableFind"}
# Operations that XLA leaves out.
_CHECKING = {"Assert", "CheckNumerics", "CheckNumericsV2"}
# Operations that draw numbers, with seeds that depend on what else is in their graph.
_DRAWING = re.compile("^(Random|Multinomial|TruncatedNormal|ParameterizedTruncated|StatefulRandom)")
_SEEDS = "{} sets the state of a random generator, from which calls at once would draw each other's numbers."
# Bytes of a loader that is copied for a trial.
_MOST_COPIED = 256 << 20
# Objects that training may change.
_OF_TRAINING = (
    tf.keras.Model, tf.keras.optimizers.Optimizer, tf.keras.callbacks.Callback, tf.keras.callbacks.CallbackList,
    tf.keras.metrics.Metric, tf.keras.Variable,
)  # fmt: skip
_GROWING = "The input may never end, and a cache of it would only grow."
# Datasets that yield an element for each of theirs.
_ONE_TO_ONE = re.compile("(Parallel)?Map|Shuffle|Prefetch|Options|Scan|Cache")
_EAGER = {
    "executing_eagerly",
    "inside_function",
    "EagerTensor",
    "AttributeError",
    "executing_eagerly_outside_functions",
}
_CLOCKS = (time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns,
           time.process_time, time.process_time_ns, time.thread_time, time.clock_gettime, time.clock_gettime_ns,
           time.localtime, time.gmtime, time.ctime, time.strftime, os.times)  # fmt: skip
_CLOCKS_OF_CLASSES = {"now", "today", "utcnow"}
# By which code reads files, or looks whether they are there.
_LOOKING = {
    "open", "read_text", "read_bytes", "exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "stat", "getmtime",
    "getsize", "listdir", "scandir", "iterdir", "glob", "iglob",
}  # fmt: skip
# Elements and batches that are made twice to compare them, for so many seconds at most.
_COMPARED, _COMPARED_S = 64, 1.0
_AT_ONCE = 16


def misfit(remedy: str, call: Call) -> str:
    """Return why a remedy, by name, would change training, or nothing at all; "" if it fits."""
    check = _CHECKS.get(remedy)
    return check(call) if check else ""


def _xla(call: Call) -> str:
    if not call.model.jit_compile:
        return "Keras does not compile this model with XLA: a layer of it cannot be, or tf.config does not let it."
    if has_own_code(call) and kinds_of_step(call, tested=True) & _CHECKING:
        return "XLA would leave out a check of values in the step, such as tf.debugging.assert_all_finite."
    return ""


def _steps_per_execution(call: Call) -> str:
    if module := _working_beside(call):
        return f"{module} may train or predict too, with callbacks that act around each batch."
    given = call.arguments.get("steps_per_epoch" if call.trains else "steps")
    if call.epoch.ends and call.epoch.batches is None and not given:
        return "Nobody knows how many steps an epoch has, and Keras counts steps of several per call otherwise then."
    per_call = int(call.model.steps_per_execution)
    if per_call * call.steps_per_batch <= call.as_written.get("steps_per_call", 1) != 1:
        return "The script runs as many steps per call already."
    for name in ("steps_per_epoch", "validation_steps", "steps"):
        if (call.arguments.get(name) or 0) % per_call:
            return (
                f"{name} is {call.arguments[name]}, and Keras would round it up to whole calls of {per_call}."
            )
    return _read_output(call) or around_batches(call) or _input_reads_training(call)


def _input_reads_training(call: Call) -> str:
    """Return that Python of an input may read what training changes, where steps follow each other otherwise."""
    found = _live(call, _python_of_input(call), clock=False)
    return f"The input may read {found}, and would read it at another time." if found else ""


def _python_of_input(call: Call) -> list[Any]:
    """Return from where the Python of an input is reached: a loader or generator, and functions of pipelines."""
    given = call.arguments.get("x")
    own = [] if given is None or isinstance(given, (tf.data.Dataset, np.ndarray, tf.Tensor)) else [given]
    return [*own, *python_of(datasets_of(call.arguments))]


def _working_beside(call: Call) -> str:
    """Return the name of a module next to the script with another call of Keras that has callbacks; "" if none has."""
    for name, module in [*sys.modules.items()]:
        with suppress(OSError, TypeError, SyntaxError):
            text = inspect.getsource(module) if name != "__main__" and is_own(name) else ""
            calls = filter(_has_callbacks, ast.walk(ast.parse(text)))
            if any(call.place not in _places(each, str(module.__file__)) for each in calls):
                return name
    return ""


def _has_callbacks(node: ast.AST) -> bool:
    """Return whether a node is a call of fit, evaluate or predict that has callbacks, or may have."""
    match node:
        case ast.Call(func=ast.Attribute(attr="fit" | "evaluate" | "predict"), keywords=given):
            return not {"callbacks", None}.isdisjoint(each.arg for each in given)
    return False


def _places(node: Any, file: str) -> set[str]:
    """Return the places of the lines of a node of a file."""
    return {where(file, line) for line in range(node.lineno, node.end_lineno + 1)}


def _many_steps(call: Call) -> str:
    if int(call.model.steps_per_execution) != 1:
        return "The script trains several steps per call by itself."
    if name := reads_params(call):
        return f"The callback {name} counts on the number of steps in its params."
    return _read_output(call) or around_batches(call)


def _no_progress_bar(call: Call) -> str:
    if call.as_written.get("quiet"):
        return "The call shows no progress bar: its verbose says so."
    name = reads_params(call)
    return f"The callback {name} may read verbose from its params." if name else _read_output(call)


def _read_output(call: Call) -> str:
    """Return why what fit prints must stay as it is; "" if only people read it."""
    if not call.arguments.get("verbose"):
        return ""
    if script.has_other_output():
        return (
            "The script has opened another file as its standard output, and may read there what fit prints."
        )
    if sys.stdout is sys.__stdout__:
        return ""
    return f"sys.stdout is a {type(sys.stdout).__name__} of the script, which may read what fit prints."


def _callbacks_per_epoch(call: Call) -> str:
    rarest = call.as_written.get("acts_every", 0)
    if call.steps_per_epoch and rarest > max(call.steps_per_epoch, acts_every(call)):
        return "A callback saves or logs less often than once an epoch."
    for callback in call.callbacks:
        if (
            "{batch" in str(getattr(callback, "filepath", ""))
            and getattr(callback, "save_freq", "") == "epoch"
        ):
            return "A checkpoint's name has the number of a batch, which Keras does not know at the end of an epoch."
    return ""


def _may_never_end(dataset: Any) -> bool:
    """Return whether a pipeline of unknown length may be endless: what repeats, and Python, may; files end."""
    if int(dataset.cardinality()) != tf.data.UNKNOWN_CARDINALITY:
        return False
    parts = list(pipelines(dataset))
    if any(int(each.cardinality()) == tf.data.INFINITE_CARDINALITY for each in parts):
        return True
    kinds = {*map(class_of, parts), *_kinds_in(parts)}
    return any("Generator" in kind or "Repeat" in kind for kind in kinds)


def _unused() -> str:
    """Return why the call's pipeline has no trace of what a remedy adds."""
    if debug_mode.DEBUG_MODE:
        return "tf.data runs in its debug mode, one element after another: leave enable_debug_mode() out."
    return "It changes a pipeline that the measured call does not read."


def _cache(call: Call) -> str:
    given = call.arguments["x"]
    if not any(caches(given)):
        endless = any(class_of(each) == "CacheDataset" for each in pipelines(given))
        return _GROWING if endless else _unused()
    if reason := _reads_once(call, given) or _reads_training(call):
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
    kinds = _kinds_in(before)
    if watch.drew or any(map(_DRAWING.match, kinds)):
        return "What lies before the cache draws random numbers, and would in the first pass only."
    if any(map(_WRITING.match, kinds)):
        return "The pipeline prints or writes something for each sample."
    return _changed_between(call, before, kinds) or (_changed_beside() if _reads_files(before, kinds) else "")


def _changed_beside() -> str:
    """Return that a process that the script has started may change files; "" if none may."""
    found = changing_files()
    return f"The {found} may change the files that the pipeline reads, while it runs." if found else ""


def _prefetch(call: Call) -> str:
    if reason := _reads_training(call):
        return reason
    if kind := reads_on(call):
        return f"Python in the pipeline reads on from, or writes to, a {kind}, and would leave it further on."
    datasets = [*datasets_of(call.arguments)]
    kinds = _kinds_in(datasets)
    reads = kinds & PYTHON or any(
        not _is_seed(each) for function in functions_of(datasets) for each in _captured(function)
    )
    if not _outlives_epochs(call):
        # Each epoch begins the pipeline, which reads ahead within the epoch only.
        return (around_batches(call) or _changed_in_step(call)) if reads else ""
    return _changed_between(call, datasets, kinds)


def _changed_in_step(call: Call) -> str:
    """Return that a step may change what pipelines read, which would read it earlier; "" if it may not."""
    return step_changes(call, "what the pipeline reads", python_of(datasets_of(call.arguments)))


def reads_on(call: Call) -> str:
    """Return the class of an iterator that a pipeline's Python reads on from, in each pass; "" without one."""
    python = python_of(datasets_of(call.arguments))
    found = next((each for each in reached(*python) if isinstance(each, Iterator)), None)
    return "" if found is None else type(found).__name__


def _reads_training(call: Call) -> str:
    """Return that a pipeline reads variables that training changes; "" if it reads none."""
    model = call.model
    changing = {
        id(each.value.handle)
        for each in (*model.variables, *_variables(model))
        if hasattr(each.value, "handle")
    }
    own_step = type(model).train_step is not tf.keras.Model.train_step
    for function in functions_of(datasets_of(call.arguments)):
        read = _captured(function)
        if any(id(each) in changing for each in read) or (own_step and read):
            return "The pipeline reads variables that training changes, and would read them at another time."
        if found := _live(call, python_in(function)):
            return f"Python in the pipeline may read {found}, and would read it at another time."
    return ""


def _live(call: Call, starts: Iterable[Any], *, clock: bool = True) -> str:
    """Return what of a training, or the clock, Python code may use; "" if it uses none of them."""
    is_part = _part_of_training(call)
    for thing in reached(*starts):
        if isinstance(thing, tf.Variable):
            return "a tf.Variable"
        if is_part(thing):
            return f"a {type(thing).__name__}, which training changes"
        if clock and (name := _clock(thing)):
            return f"the time ({name})"
    return ""


def _clock(thing: Any) -> str:
    """Return the name of a function that tells the time; "" if the thing is none."""
    if not inspect.isroutine(thing):
        return ""
    name = str(getattr(thing, "__name__", ""))
    of_class = name in _CLOCKS_OF_CLASSES and isinstance(getattr(thing, "__self__", None), type)
    return name if of_class or any(thing is each for each in _CLOCKS) else ""


def _part_of_training(call: Call) -> Callable[[Any], bool]:
    """Return what tells whether a thing is the model, a layer of it, or another object that training may change."""
    layers = {id(each) for each in call.model._flatten_layers()}
    return lambda thing: isinstance(thing, _OF_TRAINING) or id(thing) in layers


def _variables(model: Any) -> Iterator[Any]:
    """Yield the variables of a model's optimizer and metrics."""
    yield from getattr(getattr(model, "optimizer", None), "variables", ())
    for metric in model.metrics:
        yield from metric.variables


def _resources(function: Any) -> list[Any]:
    return [each for each in function.function.captured_inputs if each.dtype == tf.resource]


def _captured(function: Any) -> list[Any]:
    """Return the variables, by their resources, that a function of a pipeline uses."""
    return [each for each in _resources(function) if _is_variable(each)]


def _is_variable(resource: Any) -> bool:
    """Return whether a resource is a variable, and not a table or a generator of numbers."""
    try:
        data = resource._handle_data
    except AttributeError:
        return False
    return bool(data is not None and data.is_set and data.shape_and_type)


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


def _changed_between(call: Call, datasets: Sequence[Any], kinds: set[str]) -> str:
    """Return that something of the script's may change between epochs what pipelines read; "" if nothing may.

    Args:
        kinds: of the operations in the pipelines' functions.
    """
    python = python_of(datasets)
    names = TO_FILES if _reads_files(datasets, kinds) else set[str]()
    if python or not _VARIABLES.isdisjoint(_reading(kinds)):
        names = names | TO_VARIABLES
    return changing(call, "what the pipeline reads", python, names) if names else ""


def _reads_files(datasets: Sequence[Any], kinds: set[str]) -> bool:
    """Return whether pipelines may read files, as Python may."""
    found = _reading(kinds | {type(each).__name__ for each in datasets})
    return bool(found - _VARIABLES) or bool(python_of(datasets))


def _reading(kinds: Iterable[str]) -> set[str]:
    return {each.group() for each in map(_READING.search, kinds) if each}


def _compiled(call: Call) -> str:
    if not call.model.built:
        _traced(call, steps_of(call)[0])  # layers that are made there draw seeds
    python = own_of_step(call)
    found = [*reached(*python)]
    if name := _asks_whether_eager(found):
        return f"The step's Python names {name}, by which it may tell whether it runs eagerly."
    if name := next(filter(None, map(_clock, found)), ""):
        return f"The step's Python may read the time ({name}), and would read it once."
    kept = (type(each).__name__ for each in found if isinstance(each, tf.keras.callbacks.Callback))
    # What Keras' callbacks set of a model.
    if name := next(kept, "") or min({"history", "stop_training"} & names_in(found), default=""):
        return f"The step's Python may read {name}, which training changes, and would read it once."
    if names := _LOOKING & names_in(found):
        return f"The step's Python may read files ({min(names)}), and would read them once."
    if name := _fed(call, python):
        return f"The input may change {name}, which the step's Python reads and would read once."
    step, *others = steps_of(call)
    reason = _same_each_time(call, step, python)
    for step in others if python else ():
        with suppress(Exception):  # it may take other inputs
            reason = reason or _same_each_time(call, step, python)
    return reason or changing(call, "what the step's Python reads", python, set(), step=True)


def _same_each_time(call: Call, step: Callable[[Any], Any], python: Sequence[Any]) -> str:
    """Return that Python in a step does not do the same each time that it is traced; "" if it does."""
    with Watch(()) as making:
        _traced(call, step)  # variables are made in the first
    with Watch([*python, *parts_of(call.model)]) as watch:
        first, second = _traced(call, step), _traced(call, step)
    if watch.found:
        return f"Python in the step {watch.found} each time, and would be run once."
    if first != second or making.drew or watch.drew:
        return "Python in the step gives other values in each step, such as random numbers, and would be run once."
    return ""


def _asks_whether_eager(found: Iterable[Any]) -> str:
    """Return what Python code names, also in texts as in hasattr(x, "numpy"), that tells how it runs; "" without."""
    parts = [*own_code(found)]
    named = _EAGER.intersection(name for part in parts for name in part.co_names)
    return min(named, default="") or ("numpy" if any("numpy" in part.co_consts for part in parts) else "")


def _fed(call: Call, python: Iterable[Any]) -> str:
    """Return what the Python of an input may change of what the step's Python reads; "" if it is nothing."""
    found = {id(each): each for each in reached(*_python_of_input(call))}
    running = (part for each in found.values() if inspect.isgenerator(each) for part in codes(each.gi_code))
    code = [*own_code(found.values()), *running]
    if changes_any(code) and any(map(_part_of_training(call), found.values())):
        return "what it names of the model"
    return shared(code, found, python, but=())


def kinds_of_step(call: Call, *, tested: bool = False) -> set[str]:
    """Return the kinds of operations in the step that a call makes; `tested`: also in the others of a script."""
    step, *others = steps_of(call)
    found = {kind for kind, _ in _traced(call, step)}
    for step in others if tested else ():
        with suppress(TypeError, ValueError):  # it may take other inputs
            found |= {kind for kind, _ in _traced(call, step)}
    return found


def _traced(call: Call, step: Callable[[Any], Any]) -> Counter[tuple[str, bytes]]:
    """Return the operations and constants of a step that is traced anew, in any order."""
    specs = tf.nest.map_structure(tf.type_spec_from_value, call.batch)
    traced = tf.function(step, autograph=False).get_concrete_function(specs)
    return Counter(
        (node.op, node.attr["value"].SerializeToString() if node.op == "Const" else b"")
        for node in nodes(traced.graph)
    )


def has_own_code(call: Call) -> bool:
    """Return whether the step may run code that is not Keras'."""
    return bool(own_of_step(call))


def draws(kinds: Iterable[str], *, stateless: bool = False) -> bool:
    """Return whether operations of these kinds draw numbers whose seeds depend on what else is in their graph.

    Args:
        kinds: of operations.
        stateless: also those whose seeds are given, such as a dropout's of Keras.
    """
    return any(_DRAWING.match(each.removeprefix("Stateless") if stateless else each) for each in kinds)


def depends_on_time(call: Call) -> bool:
    """Return whether what a call's pipelines give depends on when they compute it.

    Calls at once draw in any order, and a pipeline that goes on reads variables before an epoch ends.
    """
    for dataset in datasets_of(call.arguments):
        kinds = _kinds_in([dataset])
        if "Parallel" in class_of(dataset) and (
            kinds & _UNORDERED or draws(kinds) or any(map(_CHANGING.search, kinds)) or _is_unordered(dataset)
        ):
            return True
    return _outlives_epochs(call) and "ReadVariableOp" in _kinds_in(datasets_of(call.arguments))


def _is_unordered(dataset: Any) -> bool:
    """Return whether a dataset gives what is ready first: by its own argument, or the pipeline's options."""
    own = getattr(dataset, "_deterministic", "default")
    return own == "false" or (own == "default" and dataset.options().deterministic is False)


def _outlives_epochs(call: Call) -> bool:
    """Return whether an iterator goes on in the next epoch, with what it has read ahead."""
    return bool(call.arguments.get("steps_per_epoch")) or not call.epoch.ends


def _kinds_in(datasets: Iterable[Any]) -> set[str]:
    return set[str]().union(*map(_kinds, functions_of(datasets)))


def _kinds(function: Any) -> set[str]:
    """Return the kinds of operations in a function of a pipeline."""
    return {node.op for node in nodes(function.function.graph)}


def _parallel_map(call: Call) -> str:
    if not any("Parallel" in class_of(each) for each in datasets_of(call.arguments)):
        return _unused()
    # Elements that are prepared ahead wait past the end of an epoch only if the iterator does.
    ahead = _outlives_epochs(call) or around_batches(call)
    if reason := _reads_training(call) or (ahead and _prefetch(call)) or _changed_in_step(call):
        return reason
    found = [
        (dataset, [(function, _kinds(function)) for function in dataset._functions()])
        for dataset in datasets_of(call.arguments)
    ]
    # What stays one call after another is in another order only beside functions that may read what it changes.
    beside = any(
        _at_once(dataset, kinds) and (kinds & PYTHON or _resources(function))
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
                return _SEEDS.format("A function of the pipeline")
            inner = "ParallelInterleave" in name or any("ParallelMap" in kind for kind in kinds)
            watch = Watch(python_in(function))
            if inner or ("ParallelMap" in name and not _alike_at_once(dataset, function.function, watch)):
                return "A function of the pipeline gives other values if it is called several times at once."
            if watch.found:
                return f"A function of the pipeline {watch.found}, which it would in another order."
    return ""


def _draws_twice(function: Any) -> bool:
    """Return whether operations of a function have the same seed, and so draw alike, call by call."""
    seeds = Counter(
        (node.attr["seed"].i, node.attr["seed2"].i)
        for node in nodes(function.function.graph)
        if _DRAWING.match(node.op) and "seed2" in node.attr
    )
    return any(count > 1 for seed, count in seeds.items() if any(seed))


def _at_once(dataset: Any, kinds: Iterable[str]) -> bool:
    """Return whether a dataset may call a function with these operations, or one in it, several times at once."""
    return "Parallel" in type(dataset).__name__ or any("ParallelMap" in kind for kind in kinds)


def _changes(function: Any, kinds: Iterable[str]) -> bool:
    """Return whether a function changes what its other calls read; not the states of random layers of Keras."""
    changing = {kind for kind in kinds if _CHANGING.search(kind) or _WRITING.match(kind)}
    drawing = all(map(_is_seed, _captured(function)))
    return bool(changing - ({"AssignVariableOp"} if drawing else set()))


def _is_seed(variable: Any) -> bool:
    """Return whether a variable, by its resource, is like the state of a keras.random.SeedGenerator: two integers."""
    (content,) = variable._handle_data.shape_and_type
    return tf.dtypes.as_dtype(content.dtype).is_integer and [each.size for each in content.shape.dim] == [2]


def _alike_at_once(dataset: Any, function: Any, watch: Watch) -> bool:
    """Return whether calls of a function at once give what they give one by one, if that is always the same."""
    with tf.device("CPU:0"):
        (source,) = dataset._inputs()
        elements = [tuple(tf.nest.flatten(each, expand_composites=True)) for each in _some(source)]
        return _alike(lambda number: digest(function(*elements[number])), len(elements), watch)


def _loader_threads(call: Call) -> str:
    loader = call.arguments["x"]
    generator = getattr(loader, "image_data_generator", None)
    own = generator.preprocessing_function if generator else not is_keras(loader)
    if not call.is_loader or not own:
        return ""
    if type(loader).on_epoch_begin is not tf.keras.utils.PyDataset.on_epoch_begin:
        return "The loader has on_epoch_begin, which Keras calls when threads load the first batches already."
    if found := _live(call, [loader]):
        return f"The loader may read {found}, and would read it at another time."
    if reason := step_changes(call, "what the loader reads", [loader]):
        return reason
    names = _length_names(type(loader)) & _stored(type(loader))
    if names and not _keeps_length(loader, names):
        return f"The loader's length may change with {min(names)}, and its threads ask for it early."
    steps = call.arguments.get("steps_per_epoch")
    if steps and loader.num_batches and steps != loader.num_batches:
        return f"Epochs of {steps} steps do not end where the loader does, which begins anew with workers."
    names = TO_FILES | TO_VARIABLES
    if loader.num_batches is None and (
        reason := changing(call, "what the loader reads, which has no end", [loader], names)
    ):
        return reason
    if sets_seeds([loader]):
        return _SEEDS.format("The loader")
    count = int(loader.num_batches or _COMPARED)
    watch = Watch([loader])
    if _overwrites(loader, count) or not _alike(lambda number: digest(loader[number]), count, watch):
        return "The loader gives other batches if several are loaded at once."
    if watch.found:
        return f"The loader {watch.found}, which it would in another order."
    return around_batches(call)


def _length_names(kind: type) -> set[str]:
    """Return what a loader's class reads for its number of batches."""
    found = [inspect.getattr_static(kind, name, None) for name in ("__len__", "num_batches")]
    functions = [getattr(each, "fget", each) for each in found]
    return {name for each in functions if inspect.isfunction(each) for name in each.__code__.co_names}


def _keeps_length(loader: Any, names: set[str]) -> bool:
    """Return whether on_epoch_end, tried with a copy, leaves the number of batches; no other method may set `names`."""
    kind, drawn = type(loader), (random.getstate(), np.random.get_state())
    if names & _stored(kind, but="on_epoch_end") or sum(_sizes(loader)) > _MOST_COPIED:
        return False
    try:
        clone, counts = copy.deepcopy(loader), list[Any]()
        with Watch([loader, kind.on_epoch_end]) as watch:
            for _ in range(_COMPARED):
                clone.on_epoch_end()
                counts.append(clone.num_batches)
    except Exception:
        return False
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
    return not watch.found and {*counts} == {loader.num_batches}


def _sizes(loader: Any) -> Iterator[int]:
    """Yield the bytes of a loader's attributes, as far as they say."""
    for value in vars(loader).values():
        size = getattr(value, "nbytes", None)
        yield size if isinstance(size, int) else sys.getsizeof(value)


def _stored(kind: type, but: str = "") -> set[str]:
    """Return the attributes that methods of the script's classes, but for one, set after an object is made."""
    return {
        str(step.argval)
        for name, methods in methods_of(kind).items()
        if name != but
        for method in methods
        for part in codes(method.__code__)
        for step in dis.get_instructions(part)
        if step.opname == "STORE_ATTR"
    }


def _overwrites(loader: Any, count: int) -> bool:
    """Return whether a loader makes a batch where the one before it is."""
    first = loader[0]
    before = digest(first)
    if count > 1:
        loader[1]
    return digest(first) != before


def _alike(made: Callable[[int], bytes], count: int, watch: Watch) -> bool:
    """Return whether calls give the same in any order and at once, as far as they can be repeated.

    Args:
        watch: is entered for calls in another order. What first calls keep for later ones is there by then.
    """
    with _random_by_thread() as seed:

        def seeded(number: int) -> bytes:
            seed(number)
            return made(number)

        one = [seeded(number) for number in _some(range(count))]
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


def _some(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the first values, as many as are made in a moment."""
    ends_s = time.monotonic() + _COMPARED_S
    for value, _ in zip(values, range(_COMPARED), strict=False):
        yield value
        if time.monotonic() > ends_s:
            return


def _precision(call: Call) -> str:
    scales = hasattr(call.model.optimizer, "inner_optimizer") if call.trains else False
    if scales and type(call.model).train_step.__module__ not in (
        "__main__",
        tf.keras.Model.train_step.__module__,
    ):
        return "The model's own step is in another file, and may not scale its loss."
    return ""


_CHECKS: Mapping[str, Callable[[Call], str]] = {
    "xla": _xla,
    "steps-per-execution": _steps_per_execution,
    "many-steps": _many_steps,
    "no-progress-bar": _no_progress_bar,
    "callbacks-per-epoch": _callbacks_per_epoch,
    "prefetch": _prefetch,
    "cache": _cache,
    "compiled": _compiled,
    "parallel-map": _parallel_map,
    "loader-threads": _loader_threads,
    "precision": _precision,
}
