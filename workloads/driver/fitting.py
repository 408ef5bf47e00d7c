"""Whether a remedy fits the call that was taken, as only the running script tells.

The remedies in harness/fixes read a script's text. Here are its objects: callbacks whose classes may come from
anywhere, functions of a pipeline as TensorFlow has traced them, a step that is traced twice.
"""

from __future__ import annotations

import inspect
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.first_epoch import digest, pipelines, repeats

_BATCH_HOOKS = (
    "on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin",
    "on_test_batch_end", "on_predict_batch_begin", "on_predict_batch_end",
)  # fmt: skip
# Callbacks of Keras that do around batches what is the same if it is done less often.
_SHOWING = ("History", "ProgbarLogger", "CSVLogger")
# What a callback is given to act once an epoch, and not every so many batches.
_OFTEN = ("save_freq", "update_freq")
# Callbacks of Keras that run functions of the script.
_RUNNING = ("LambdaCallback", "LearningRateScheduler")
_PYTHON = {"EagerPyFunc", "PyFunc", "PyFuncStateless"}
# Operations that change what other calls of a function read.
_CHANGING = re.compile(
    "Assign|ResourceScatter|LookupTable(Insert|Import|Remove)|Queue|Stack(Push|Pop)|IteratorGetNext"
)
# Operations that read what others, or Python, may change.
_READING = re.compile("ReadVariableOp|ResourceGather|LookupTableFind|ReadFile")
# Elements and batches that are made twice to compare them, for so many seconds at most.
_COMPARED, _COMPARED_S = 64, 1.0
_AT_ONCE = 16


def misfit(remedy: str, call: Call) -> str:
    """Return why a remedy, by name, would change training, or nothing at all; "" if it fits."""
    check = _CHECKS.get(remedy)
    return check(call) if check else ""


def _xla(call: Call) -> str:
    if call.model.jit_compile:
        return ""
    return "Keras does not compile this model with XLA: a layer of it cannot be."


def _steps_per_execution(call: Call) -> str:
    per_call = int(call.model.steps_per_execution)
    for name in ("steps_per_epoch", "validation_steps", "steps"):
        if (call.arguments.get(name) or 0) % per_call:
            return (
                f"{name} is {call.arguments[name]}, and Keras would round it up to whole calls of {per_call}."
            )
    return _around_batches(call)


def _around_batches(call: Call) -> str:
    """Return why callbacks must run around each batch; "" if they need not."""
    for callback in callbacks_of(call):
        often = next((getattr(callback, name) for name in _OFTEN if hasattr(callback, name)), None)
        name = type(callback).__name__
        if _is_keras(callback) and (name in _SHOWING or often == "epoch"):
            continue
        for hook in _BATCH_HOOKS:
            own = getattr(callback, hook)
            if getattr(own, "__func__", own) is not getattr(tf.keras.callbacks.Callback, hook):
                return f"The callback {name} acts around each batch."
    return ""


def _many_steps(call: Call) -> str:
    for callback in callbacks_of(call):
        if not _is_keras(callback) and "params" in _names(type(callback)):
            return f"The callback {type(callback).__name__} counts on the number of steps in its params."
    return _around_batches(call)


def _names(owner: type) -> set[str]:
    """Return the names that methods of a class use, its own and those it has from others that are not Keras'."""
    waiting: list[Any] = [
        function.__code__
        for each in owner.__mro__
        if each.__module__.partition(".")[0] != "keras"
        for function in vars(each).values()
        if inspect.isfunction(function)
    ]
    found: set[str] = set()
    while waiting:
        code = waiting.pop()
        found.update(code.co_names)
        waiting += [each for each in code.co_consts if inspect.iscode(each)]
    return found


def _callbacks_per_epoch(call: Call) -> str:
    for callback in callbacks_of(call):
        if "{batch" in str(getattr(callback, "filepath", "")):
            return "A checkpoint's name has the number of a batch, which Keras does not know at the end of an epoch."
    return ""


def _cache(call: Call) -> str:
    given = call.arguments["x"]
    if not repeats(given):
        return "What lies before the cache differs from pass to pass, and would stay as in the first."
    functions = (function for dataset in pipelines(given) for function in dataset._functions())
    kinds = set[str]().union(*map(_kinds, functions))
    if not (kinds & _PYTHON or any(map(_READING.match, kinds))):
        return ""
    return _changing(call, "what the pipeline reads")


def _changing(call: Call, what: str) -> str:
    """Return that a callback may change something between epochs; "" if there is none but Keras' own."""
    for callback in callbacks_of(call):
        name = type(callback).__name__
        if not _is_keras(callback) or name in _RUNNING:
            return f"The callback {name} may change between epochs {what}."
    return ""


def _compiled(call: Call) -> str:
    if not call.model.built:
        _traced(call)  # layers that are made there draw seeds
    drawn = random.getstate(), repr(np.random.get_state())
    # Variables are made in the first.
    _, first, second = (_traced(call) for _ in range(3))
    if first != second or drawn != (random.getstate(), repr(np.random.get_state())):
        return "Python in the step gives other values in each step, such as random numbers, and would be run once."
    return _changing(call, "what the step's Python reads")


def _traced(call: Call) -> Counter[tuple[str, bytes]]:
    """Return the operations and constants of a step that is traced anew, in any order."""
    step = call.model.train_step if call.trains else call.model.test_step
    specs = tf.nest.map_structure(tf.type_spec_from_value, call.batch)
    traced = tf.function(step, autograph=False).get_concrete_function(specs)
    return Counter(
        (node.op, node.attr["value"].SerializeToString() if node.op == "Const" else b"")
        for node in _nodes(traced.graph)
    )


def _kinds(function: Any) -> set[str]:
    """Return the kinds of operations in a function of a pipeline."""
    return {node.op for node in _nodes(function.function.graph)}


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph and of the functions in it."""
    definition = graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def _parallel_map(call: Call) -> str:
    given = call.arguments["x"]
    for dataset in pipelines(given) if isinstance(given, tf.data.Dataset) else ():
        for function in dataset._functions():
            kinds = _kinds(function)
            if any(map(_CHANGING.search, kinds)):
                return "A function of the pipeline changes what its other calls read."
            is_map = "ParallelMap" in type(dataset).__name__
            if is_map and kinds & _PYTHON and not _alike_at_once(dataset, function.function):
                return "A function of the pipeline gives other values if it is called several times at once."
    return ""


def _alike_at_once(dataset: Any, function: Any) -> bool:
    """Return whether calls of a function at once give what they give one by one, if that is always the same."""
    with tf.device("CPU:0"):
        (source,) = dataset._inputs()
        elements = [tuple(tf.nest.flatten(each, expand_composites=True)) for each in _some(source)]
        return _alike(lambda number: digest(function(*elements[number])), len(elements))


def _loader_threads(call: Call) -> str:
    loader = call.arguments["x"]
    generator = getattr(loader, "image_data_generator", None)
    own = generator.preprocessing_function if generator else not _is_keras(loader)
    if not call.is_loader or not own:
        return ""
    count = int(loader.num_batches or _COMPARED)
    if _overwrites(loader, count) or not _alike(lambda number: digest(loader[number]), count):
        return "The loader gives other batches if several are loaded at once."
    return _around_batches(call)


def _overwrites(loader: Any, count: int) -> bool:
    """Return whether a loader makes a batch where the one before it is."""
    first = loader[0]
    before = digest(first)
    if count > 1:
        loader[1]
    return digest(first) != before


def _alike(made: Callable[[int], bytes], count: int) -> bool:
    """Return whether calls give the same in any order and at once, as far as they can be repeated."""
    one = [_seeded(made, number) for number in _some(range(count))]
    numbers = range(len(one))
    if [_seeded(made, number) for number in reversed(numbers)] != one[::-1]:
        return False
    if [made(number) for number in numbers] != one:
        return True  # random: what is drawn at once cannot be compared
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return all([*threads.map(made, numbers)] == one for _ in range(2))


def _seeded(made: Callable[[int], bytes], number: int) -> bytes:
    """Call after Python, NumPy and TensorFlow were told what to draw."""
    random.seed(number)
    np.random.seed(number)
    tf.random.set_seed(number)
    return made(number)


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


def callbacks_of(call: Call) -> list[Any]:
    """Return the callbacks that a call is given."""
    given = call.arguments.get("callbacks") or ()
    return list(getattr(given, "callbacks", None) or tf.nest.flatten(given))


def _is_keras(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "keras"


_CHECKS: Mapping[str, Callable[[Call], str]] = {
    "xla": _xla,
    "steps-per-execution": _steps_per_execution,
    "many-steps": _many_steps,
    "callbacks-per-epoch": _callbacks_per_epoch,
    "cache": _cache,
    "compiled": _compiled,
    "parallel-map": _parallel_map,
    "loader-threads": _loader_threads,
    "precision": _precision,
}
