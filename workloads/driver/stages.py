"""The stages of a tf.data pipeline, found by walking it from its end to its source.

Reads private attributes of TensorFlow (`_inputs`, `_map_func`, `_generator`), in this module only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

_BATCHING = re.compile(r"Batch|Ragged")
# Stages without work of their own: their time belongs to what they are applied to.
_PLAIN = re.compile(r"Options|Restructured|Take|Skip|Repeat|Model|Prefetch|Shard|AssertCardinality")


@dataclass(frozen=True)
class Stage:
    """A stage: its name with the line in the script, the pipeline up to it, and whether it yields batches."""

    name: str
    dataset: Any
    batched: bool


def chain(dataset: Any) -> Iterator[Any]:
    """Yield the datasets of a pipeline from its end to its source; several inputs end the walk."""
    current = dataset
    while current is not None:
        yield current
        inputs = current._inputs()
        current = inputs[0] if len(inputs) == 1 else None


def stages(dataset: Any) -> list[Stage]:
    """Return the stages in pipeline order.

    A pipeline with a cache begins there, because what lies before it runs in the first epoch only.
    """
    walked: list[Any] = []
    for each in chain(dataset):
        walked.append(each)
        # What lies before a generator only counts its iterators.
        if "Cache" in type(each).__name__ or _generator(each):
            break
    walked.reverse()
    result: list[Stage] = []
    batched = any(_BATCHING.search(type(each).__name__) for each in chain(walked[0]))
    for position, each in enumerate(walked):
        kind = type(each).__name__
        batched = (batched or bool(_BATCHING.search(kind))) and "Unbatch" not in kind
        if position and (_PLAIN.search(kind) or _inside_library(each)):
            continue
        result.append(Stage(_unique(_name(each, first=not position), result), each, batched))
    return result


def _name(dataset: Any, *, first: bool) -> str:
    function = _function(dataset)
    code = getattr(function, "__code__", None)
    kind = (
        type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V2").removeprefix("Parallel")
    )
    plain = (
        "cache" if "Cache" in kind else "read" if first else re.sub(r"(?<!^)([A-Z])", r" \1", kind).lower()
    )
    if code is None or _inside_library(dataset):
        return plain
    name = plain if function.__name__ == "<lambda>" else function.__name__
    return f"{name}, {Path(code.co_filename).name}:{code.co_firstlineno}"


def _function(dataset: Any) -> Any:
    wrapped = getattr(dataset, "_map_func", None) or getattr(dataset, "_predicate", None)
    function = getattr(wrapped, "_func", None)
    return _generator(dataset) or function


def _generator(dataset: Any) -> Any:
    """Return the function given to from_generator, which TensorFlow hides in closures; None for other datasets."""
    function: Any = getattr(getattr(dataset, "_map_func", None), "_func", None)
    if not getattr(function, "__module__", "").endswith("from_generator_op"):
        return None
    inner = [cell.cell_contents for cell in function.__closure__ or ()]
    cells = [cell.cell_contents for each in inner for cell in getattr(each, "__closure__", None) or ()]
    return next((made for each in cells if (made := getattr(each, "_generator", None))), None)


def _inside_library(dataset: Any) -> bool:
    """Return whether a stage's function is TensorFlow's or Keras' own."""
    file = getattr(getattr(_function(dataset), "__code__", None), "co_filename", "")
    return any(f"/{package}/" in file for package in ("tensorflow", "keras", "autograph"))


def _unique(name: str, before: list[Stage]) -> str:
    taken = {stage.name for stage in before}
    return next(each for number in range(1, len(taken) + 2)
                if (each := name if number == 1 else f"{name} ({number})") not in taken)  # fmt: skip


def element_rows(element: Any) -> Any:
    """Return the number of samples of a batch inside a graph, int32."""
    first = tf.nest.flatten(element, expand_composites=False)[0]
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    return tf.cast(tf.shape(first)[0] if first.shape.rank is None or first.shape.rank else 1, tf.int32)
