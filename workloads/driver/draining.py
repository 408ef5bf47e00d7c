"""Variants that drain the input pipeline without a model: all stages, some, or with fewer threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads.driver import pipeline
from workloads.driver.devices import touch
from workloads.driver.job import Job
from workloads.driver.tuning import factor
from workloads.driver.workload_file import WorkloadFileError
from workloads.protocol import BUILD, INPUT_ONLY, STAGE_PREFIX, THREADS_PREFIX

# Target duration of a call: short compared with a window, long compared with call overhead.
DRAIN_CALL_S = 0.02
# Samples pulled at once; few, because all are held in memory.
GROUP_SIZE = 16


def drains_partly(variant: str) -> bool:
    """Return whether a variant drains some stages, or limits the number of threads."""
    return variant.startswith((STAGE_PREFIX, THREADS_PREFIX))


def drains_input(variant: str) -> bool:
    """Return whether a variant runs the pipeline without the model."""
    return variant == INPUT_ONLY or drains_partly(variant)


def drain(job: Job) -> None:
    """Drain the pipeline or some of its stages.

    Only input-only copies batches to the devices; the other variants measure the host.
    """
    variant, meter = job.variant, job.meter
    began = meter.clock()
    dataset, batched = _source(job)
    if variant.startswith(THREADS_PREFIX):
        if pipeline.is_loader(dataset):
            job.events.needless(variant, "the input is a Python loader, not a tf.data pipeline")
            return
        options, threads = tf.data.Options(), factor(variant, THREADS_PREFIX)
        options.threading.private_threadpool_size = threads
        options.threading.max_intra_op_parallelism = threads
        dataset = dataset.with_options(options)
    copied_to = job.devices if variant == INPUT_ONLY else ()
    dataset = pipeline.as_dataset(dataset)
    pull = batches(dataset, copied_to) if batched else samples(dataset)
    meter.phase(BUILD, began)
    meter.begin()
    count, going = 1, True
    while going:
        start = time.monotonic_ns()
        pulled = pull(count)
        elapsed_ns = time.monotonic_ns() - start
        # Every worker drains its own pipeline; all are assumed to be equally fast.
        going = meter.tick(count, pulled * max(1, job.spec.workers), elapsed_ns)
        count = max(1, min(2 * count, round(count * DRAIN_CALL_S * 1e9 / elapsed_ns)))


def _source(job: Job) -> tuple[Any, bool]:
    """Return the input to drain, and whether its elements are batches."""
    if not job.variant.startswith(STAGE_PREFIX):
        return pipeline.baseline(job, devices=len(job.devices)), True
    stage = job.variant.removeprefix(STAGE_PREFIX)
    stages = job.stages(job.params["batch_size"] * len(job.devices))
    dataset = pipeline.assemble(stages, stage)
    names = [name for name, _ in stages]
    if "batch" not in names and not pipeline.is_loader(dataset):
        raise WorkloadFileError("No stage is named `batch`. Name the one that batches `batch`.")
    # Every stage of a loader returns batches.
    return dataset, pipeline.is_loader(dataset) or "batch" in names[: names.index(stage) + 1]


def batches(dataset: tf.data.Dataset, names: Sequence[str]) -> Callable[[int], int]:
    """Return a function that pulls n batches in a compiled loop and returns their number of samples.

    The last batch of an epoch may be short.

    Args:
        names: devices to copy each batch's shares to; () for none.
    """
    return _puller(
        dataset.repeat(), lambda batch: (_rows(batch), touch(batch, names)), "" if names else "CPU:0"
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


def _rows(element: Any) -> Any:
    first = tf.nest.flatten(element)[0]
    return tf.cast(tf.shape(first)[0] if first.shape.rank else 1, tf.int32)
