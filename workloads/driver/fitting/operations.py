"""TensorFlow's operations in pipelines and steps: which draw, change, write or check something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.own_code.step import steps_of
from workloads.driver.pipelines import PYTHON, functions_of, nodes

# Operations of which calls at once take what comes next in any order: Python, and the state of a tf.random.Generator.
UNORDERED = PYTHON | {"RngReadAndSkip"}
# Operations that change what other calls of a function read.
_CHANGING_OTHERS = "LookupTable(Insert|Import|Remove)|Queue|Stack(Push|Pop)|IteratorGetNext"
CHANGING = re.compile(f"Assign|ResourceScatter|{_CHANGING_OTHERS}")
# Operations that write what a user reads.
WRITING = re.compile("^(Print|Write|Save)")
# Operations that XLA leaves out.
CHECKING = {"Assert", "CheckNumerics", "CheckNumericsV2"}
# Operations that draw numbers, with seeds that depend on what else is in their graph.
DRAWING = re.compile("^(Random|Multinomial|TruncatedNormal|ParameterizedTruncated|StatefulRandom)")


def resources_of(function: Any) -> list[Any]:
    """Return the resources, such as variables and tables, that a function of a pipeline uses."""
    return [each for each in function.function.captured_inputs if each.dtype == tf.resource]


def captured(function: Any) -> list[Any]:
    """Return the variables, by their resources, that a function of a pipeline uses."""
    return [each for each in resources_of(function) if _is_variable(each)]


def _is_variable(resource: Any) -> bool:
    """Return whether a resource is a variable, and not a table or a generator of numbers."""
    try:
        data = resource._handle_data
    except AttributeError:
        return False
    return bool(data is not None and data.is_set and data.shape_and_type)


def kinds_of_step(call: Call, *, tested: bool = False) -> set[str]:
    """Return the kinds of operations in the step that a call makes; `tested`: also in the others of a script."""
    step, *others = steps_of(call)
    found = {kind for kind, _ in traced(call, step)}
    for step in others if tested else ():
        with suppress(TypeError, ValueError):  # it may take other inputs
            found |= {kind for kind, _ in traced(call, step)}
    return found


def changes_resources(call: Call) -> bool:
    """Return whether the step of a call changes what is no variable, such as a table or a queue."""
    return any(re.search(_CHANGING_OTHERS, kind) for kind in kinds_of_step(call))


def traced(call: Call, step: Callable[[Any], Any], specs: Any = None) -> Counter[tuple[str, bytes]]:
    """Return the operations and constants of a step that is traced anew, in any order.

    Args:
        specs: of what it is given; None for a batch of the call.
    """
    if specs is None:
        specs = tf.nest.map_structure(tf.type_spec_from_value, call.batch)
    made = tf.function(step, autograph=False).get_concrete_function(specs)
    return Counter(
        (node.op, node.attr["value"].SerializeToString() if node.op == "Const" else b"")
        for node in nodes(made.graph)
    )


def draws(kinds: Iterable[str], *, stateless: bool = False) -> bool:
    """Return whether operations of these kinds draw numbers whose seeds depend on what else is in their graph.

    Args:
        kinds: of operations.
        stateless: also those whose seeds are given, such as a dropout's of Keras.
    """
    return any(DRAWING.match(each.removeprefix("Stateless") if stateless else each) for each in kinds)


def kinds_in(datasets: Iterable[Any]) -> set[str]:
    """Return the kinds of operations in the functions of datasets."""
    return set[str]().union(*map(kinds_of, functions_of(datasets)))


def kinds_of(function: Any) -> set[str]:
    """Return the kinds of operations in a function of a pipeline."""
    return {node.op for node in nodes(function.function.graph)}


def is_seed(variable: Any) -> bool:
    """Return whether a variable, by its resource, is like the state of a keras.random.SeedGenerator: two integers."""
    (content,) = variable._handle_data.shape_and_type
    return tf.dtypes.as_dtype(content.dtype).is_integer and [each.size for each in content.shape.dim] == [2]
