"""Variants that drain the input pipeline with no model: all of it, its first stages, or on few threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads import pipeline
from workloads.devices import touch
from workloads.job import Job
from workloads.protocol import BUILD, INPUT_ONLY, STAGE_PREFIX, THREADS_PREFIX
from workloads.tuning import factor

# How long one call that drains the pipeline should take: short beside a window, long beside its own cost.
DRAIN_CALL_S = 0.02
# So many single samples are drained at once: few, since large ones are held in memory together.
GATHERED = 16


def of_a_part(variant: str) -> bool:
    """Return whether a variant drains a part of the pipeline, or drains it on other threads."""
    return variant.startswith((STAGE_PREFIX, THREADS_PREFIX))


def drained(variant: str) -> bool:
    """Return whether a variant runs the pipeline without the model."""
    return variant == INPUT_ONLY or of_a_part(variant)


def drain(job: Job) -> None:
    """Drain the pipeline, or a part of it, and count.

    Only input-only copies what it gets to the devices: the others show what the host can do.
    """
    variant, meter = job.variant, job.meter
    began = meter.clock()
    dataset, batched = _source(job)
    if variant.startswith(THREADS_PREFIX):
        if pipeline.is_loader(dataset):
            job.events.needless(variant, "the loader is no tf.data pipeline")
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
        took = time.monotonic_ns() - start
        # Every worker drains a pipeline of its own, and the others' pace is taken to be this one's.
        going = meter.tick(count, pulled * max(1, job.spec.workers), took)
        count = max(1, min(2 * count, round(count * DRAIN_CALL_S * 1e9 / took)))


def _source(job: Job) -> tuple[Any, bool]:
    """Return what a variant drains, and whether its elements are batches."""
    if not job.variant.startswith(STAGE_PREFIX):
        return pipeline.baseline(job, devices=len(job.devices)), True
    stage = job.variant.removeprefix(STAGE_PREFIX)
    stages = job.stages(job.params["batch_size"] * len(job.devices))
    dataset = pipeline.assemble(stages, stage)
    names = [name for name, _ in stages]
    # Every stage of a loader gives batches.
    return dataset, pipeline.is_loader(dataset) or "batch" in names[: names.index(stage) + 1]


def batches(dataset: tf.data.Dataset, names: Sequence[str]) -> Callable[[int], int]:
    """Return a function that pulls n batches, in a compiled loop as Keras fit would, with no model.

    It returns how many samples they held, since the last batch of an epoch may be short.

    Args:
        names: of the devices that a batch's shares are copied to; none to leave batches where they are.
    """
    return _puller(
        dataset.repeat(), lambda batch: (_rows(batch), touch(batch, names)), "" if names else "CPU:0"
    )


def samples(dataset: tf.data.Dataset) -> Callable[[int], int]:
    """Return a function that pulls n times GATHERED single samples, and returns how many that were.

    tf.data gathers them itself: pulled one by one, each would take 20 us and more beside its own time.
    """
    windows = dataset.repeat().window(GATHERED, drop_remainder=True)
    return _puller(windows, lambda _: (GATHERED, 0.0), "CPU:0")


def _puller(
    dataset: tf.data.Dataset, look: Callable[[Any], tuple[Any, Any]], place: str
) -> Callable[[int], int]:
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def pull(count: Any) -> Any:
        def body(index: Any, total: Any, seen: Any) -> tuple[Any, Any, Any]:
            more, touched = look(iterator.get_next())
            return index + 1, total + more, seen + touched

        # TensorFlow leaves whole numbers in host memory, but would sum what was seen on a GPU: its launch
        # takes many times as long as a small element.
        with tf.device(place or None):
            start = (0, 0, 0.0)
            return tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)[1:]

    def run(count: int) -> int:
        total, seen = pull(tf.constant(count))
        seen.numpy()  # what was copied has arrived
        return int(total)

    return run


def _rows(element: Any) -> Any:
    first = tf.nest.flatten(element)[0]
    return tf.cast(tf.shape(first)[0] if first.shape.rank else 1, tf.int32)
