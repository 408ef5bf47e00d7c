"""The parts of a tf.data pipeline, their functions, and how to read one without leaving a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import tensorflow as tf
from tensorflow.python.data.util import structure
from tensorflow.python.ops import script_ops

# Operations that call Python.
PYTHON = {"EagerPyFunc", "PyFunc", "PyFuncStateless"}


def pipelines(dataset: Any) -> Iterator[Any]:
    """Yield a pipeline and all that lie before it, those nearest to the sources first."""
    for source in dataset._inputs():
        yield from pipelines(source)
    yield dataset


def class_of(dataset: Any) -> str:
    """Return TensorFlow's name of a kind of dataset, such as "CacheDataset"."""
    return type(dataset).__name__.strip("_")


def functions_of(datasets: Iterable[Any]) -> Iterator[Any]:
    """Yield the functions of datasets, as TensorFlow has traced them."""
    return (function for dataset in datasets for function in dataset._functions())


def datasets_of(arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the datasets of which the pipelines of a call's training and validation consist."""
    for given in (arguments.get("x"), arguments.get("validation_data")):
        yield from pipelines(given) if isinstance(given, tf.data.Dataset) else ()


def python_of(datasets: Iterable[Any]) -> list[Any]:
    """Return the Python functions that the functions of datasets call."""
    return [each for function in functions_of(datasets) for each in python_in(function)]


def python_in(function: Any) -> list[Any]:
    """Return the Python functions that a function of a pipeline calls."""
    tokens = {node.attr["token"].s.decode() for node in nodes(function.function.graph) if node.op in PYTHON}
    return [each for each in map(script_ops._py_funcs.get, tokens) if each is not None]


def taken(source: Any, element: Any) -> tuple[Any, ...]:
    """Return the tensors as which functions of a pipeline take an element of the dataset before them.

    Those of one in several parts, such as a ragged tensor, are one variant.
    """
    return tuple(structure.to_tensor_list(source.element_spec, element))


def given(function: Any, tensors: Sequence[Any]) -> Any:
    """Return what a function of a pipeline gives for such tensors."""
    return structure.from_compatible_tensor_list(function.output_structure, function.function(*tensors))


def nodes(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph and of the functions in it."""
    definition = graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


@contextmanager
def read_alone(dataset: Any) -> Iterator[Any]:
    """Give a pipeline to read that reads nothing ahead if only its end does, and restore variables that it assigns.

    How far a pipeline reads ahead differs from time to time: what Python gives it, or a generator's state, would go on
    from another place in each process.
    """
    while class_of(dataset) == "PrefetchDataset":
        (dataset,) = dataset._inputs()
    variables: dict[int, Any] = {}
    for function in functions_of(pipelines(dataset)):
        with suppress(AssertionError):  # one is gone
            variables |= {id(each): each for each in function.function.variables}
    before = [(each, tf.identity(each.read_value())) for each in variables.values()]
    options = tf.data.Options()
    # Else a prefetch is added, or a map and a batch after it become one that maps the next batch too.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    try:
        yield dataset.with_options(options)
    finally:
        for variable, value in before:
            variable.assign(value)
