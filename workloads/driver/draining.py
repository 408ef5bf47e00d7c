"""Variants that drain the input pipeline without a model: all of it, up to each stage, or with fewer threads.

The stages of a tf.data pipeline are found by walking it from its end to its source, by private attributes of
TensorFlow (`_inputs`, `_map_func`, `_generator`).
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from workloads.driver.call import rows, rows_in_graph
from workloads.driver.devices import touch
from workloads.driver.job import Job
from workloads.driver.pipelines import class_of
from workloads.driver.python_calls import profile
from workloads.driver.script import ScriptError
from workloads.driver.sites import where
from workloads.driver.timing import Meter
from workloads.protocol import visible
from workloads.variants import INPUT_ONLY, STAGE, THREADS

# Samples pulled at once; few, because all are held in memory.
GROUP_SIZE = 16
# Between the words of a class's name, of which an abbreviation is one.
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BATCHING = re.compile(r"Batch|Ragged")
# Stages without work of their own: their time belongs to what they are applied to.
_PLAIN = re.compile(r"Options|Restructured|Take|Skip|Repeat|Model|Prefetch|Shard|AssertCardinality")

# What they join is read with them.
_JOINING = re.compile("Zip|Concatenate")


def drain(job: Job) -> None:
    """Drain the input of fit. Only input-only copies batches to the devices; other variants measure the host."""
    dataset = job.call.dataset
    if THREADS.has(job.variant):
        options, threads = tf.data.Options(), THREADS.number(job.variant)
        options.threading.private_threadpool_size = threads
        options.threading.max_intra_op_parallelism = threads
        dataset = dataset.with_options(options)
    _drain(job, batches(dataset, job.devices if job.variant == INPUT_ONLY else ()))


def drain_stages(job: Job, meter: Callable[[str], Meter]) -> None:
    """Drain the pipeline up to each of its stages; `meter` makes a meter for the variant of a stage.

    A loader written in Python is profiled by function instead.
    """
    if job.call.in_python:
        loader = job.call.arguments["x"]
        # Of an endless loader, some batches are profiled.
        made = map(loader.__getitem__, range(loader.num_batches or 1000)) if job.call.is_loader else loader
        costs = profile(iter(made), rows(job.call.batch), job.meter.spec.window_s)
        if not costs:
            raise ScriptError("The generator has ended: no batch is left to profile.")
        for name, seconds in costs.items():
            job.events.metric(INPUT_ONLY, STAGE.of(visible(name)), seconds)
        return
    for stage in stages(job.call.arguments["x"]):
        variant = STAGE.of(visible(stage.name))
        job.events.write("variant", variant=variant, params={}, changes=[])
        pull = batches(stage.dataset, ()) if stage.batched else samples(stage.dataset)
        _drain(job.of(variant, meter(variant)), pull)


def _drain(job: Job, pull: Callable[[int], int]) -> None:
    meter = job.meter
    meter.begin()
    count, going = 1, True
    while going:
        start = time.monotonic_ns()
        pulled = pull(count)
        elapsed_ns = time.monotonic_ns() - start
        going = meter.tick(count, pulled, elapsed_ns)
        # Target duration of a call: short compared with a window, long compared with call overhead.
        count = max(1, min(2 * count, round(count * 0.02 * 1e9 / elapsed_ns)))


def batches(dataset: tf.data.Dataset, names: Sequence[str]) -> Callable[[int], int]:
    """Return a function that pulls n batches in a compiled loop and returns their number of samples.

    The last batch of an epoch may be short.

    Args:
        names: devices to copy each batch's shares to; () for none.
    """
    return _puller(
        dataset.repeat(), lambda batch: (rows_in_graph(batch), touch(batch, names)), "" if names else "CPU:0"
    )


def samples(dataset: tf.data.Dataset) -> Callable[[int], int]:
    """Return a function that pulls n groups of GROUP_SIZE samples and returns their number.

    Pulling samples one by one would add at least 20 us each.
    """
    windows = dataset.repeat().window(GROUP_SIZE, drop_remainder=True)
    return _puller(windows, lambda _: (GROUP_SIZE, 0.0), "CPU:0")


def _puller(
    dataset: tf.data.Dataset, consume: Callable[[Any], tuple[Any, Any]], device: str
) -> Callable[[int], int]:
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def pull(count: Any) -> Any:
        def body(index: Any, total: Any, checksum: Any) -> tuple[Any, Any, Any]:
            rows, value = consume(iterator.get_next())
            return index + 1, total + rows, checksum + value

        # TensorFlow keeps the integers in host memory but would add the checksum on a GPU, where the launch
        # takes many times as long as a small element.
        with tf.device(device or None):
            start = (0, 0, 0.0)
            return tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)[1:]

    def run(count: int) -> int:
        total, checksum = pull(tf.constant(count))
        checksum.numpy()  # waits for the copies
        return int(total)

    return run


@dataclass(frozen=True)
class Stage:
    """A stage: its name with the line in the script, the pipeline up to it, and whether it yields batches."""

    name: str
    dataset: Any
    batched: bool


def stages(dataset: Any) -> list[Stage]:
    """Return the stages in pipeline order.

    A pipeline with a cache begins there, because what lies before it runs in the first epoch only.
    """
    walked: list[Any] = []
    for each in _line(dataset):
        walked.append(each)
        # What lies before a generator only counts its iterators.
        if "Cache" in type(each).__name__ or _generator(each):
            break
    walked.reverse()
    result: list[Stage] = []
    batched = any(_BATCHING.search(type(each).__name__) for each in _line(walked[0]))
    # A function, or a generator, may make the batches.
    made = not batched and not any(_BATCHING.search(type(each).__name__) for each in walked)
    for position, each in enumerate(walked):
        kind = type(each).__name__
        batched = (batched or bool(_BATCHING.search(kind))) and "Unbatch" not in kind
        if made:
            batched = _rank(each) == _rank(walked[-1]) != 0
        # With what else is read beside it; or a further map of one function of Keras.
        if position and (_JOINING.search(kind) or _of_keras(each) == result[-1].name):
            result[-1] = replace(result[-1], dataset=each, batched=batched)
            continue
        if position and (_PLAIN.search(kind) or _inside_tensorflow(each)):
            continue
        result.append(Stage(_unique(_name(each, first=not position), result), each, batched))
    return result


def _rank(dataset: Any) -> int | None:
    """Return the rank of the first tensor of a dataset's elements; None if it is unknown."""
    first = tf.nest.flatten(dataset.element_spec)[0]
    rank: int | None = first.shape.rank if hasattr(first, "shape") else None
    return rank


def _line(dataset: Any) -> list[Any]:
    """Return the datasets of a pipeline from its end to its source; of several inputs, those of the longest.

    Several that are sources only are one source. Nothing here recurses: a loop may have joined a thousand datasets.
    """
    inputs: dict[int, list[Any]] = {}  # by identity, as lengths
    lengths: dict[int, int] = {}
    pending = [dataset]
    while pending:
        each = pending[-1]
        if id(each) not in inputs:
            # The first input of sample_from_datasets chooses among the others.
            chooses = "DirectedInterleave" in type(each).__name__
            inputs[id(each)] = list(each._inputs())[int(chooses) :]
        if unknown := [other for other in inputs[id(each)] if id(other) not in lengths]:
            pending += unknown
        else:
            lengths[id(each)] = 1 + max((lengths[id(other)] for other in inputs[id(each)]), default=0)
            pending.pop()
    line = [dataset]
    while found := inputs[id(line[-1])]:
        longest = max(found, key=lambda each: lengths[id(each)])
        if len(found) > 1 and lengths[id(longest)] == 1:
            break
        line.append(longest)
    return line


def _name(dataset: Any, *, first: bool) -> str:
    function = _function(dataset)
    code = getattr(function, "__code__", None)
    kind = class_of(dataset).removesuffix("Dataset").removesuffix("V2").removeprefix("Parallel")
    plain = "cache" if "Cache" in kind else "read" if first else _WORDS.sub(" ", kind).lower()
    if code is None or _inside_tensorflow(dataset):
        return plain
    if made_by := _of_keras(dataset):
        return plain if first else made_by
    name = plain if function.__name__ == "<lambda>" else function.__name__
    return f"{name}, {where(code.co_filename, code.co_firstlineno)}"


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


def _of_keras(dataset: Any) -> str:
    """Return what made a stage whose function is Keras' own: "image dataset" for image_dataset_utils.py; else ""."""
    file = Path(_file(dataset))
    return file.stem.removesuffix("_utils").replace("_", " ") if "keras" in file.parts else ""


def _inside_tensorflow(dataset: Any) -> bool:
    """Return whether a stage's function is TensorFlow's own."""
    return any(package in Path(_file(dataset)).parts for package in ("tensorflow", "autograph"))


def _file(dataset: Any) -> str:
    return getattr(getattr(_function(dataset), "__code__", None), "co_filename", "")


def _unique(name: str, before: list[Stage]) -> str:
    names = {stage.name for stage in before}
    if name not in names:
        return name
    numbered = (f"{name} ({number})" for number in itertools.count(2))
    return next(each for each in numbered if each not in names)
