"""Variants that drain the input pipeline without a model: all stages, some, or with fewer threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads.driver.call import rows
from workloads.driver.devices import touch
from workloads.driver.job import Job
from workloads.driver.loader_profile import profile
from workloads.driver.stages import element_rows, stages
from workloads.driver.timing import Meter
from workloads.driver.variants import factor
from workloads.protocol import INPUT_ONLY, STAGE_PREFIX, THREADS_PREFIX

# Target duration of a call: short compared with a window, long compared with call overhead.
DRAIN_CALL_S = 0.02
# Samples pulled at once; few, because all are held in memory.
GROUP_SIZE = 16
# Batches of an endless loader that are profiled at most.
LOADED = 1000


def drain(job: Job) -> None:
    """Drain the input of fit. Only input-only copies batches to the devices; other variants measure the host."""
    dataset = job.call.dataset
    if job.variant.startswith(THREADS_PREFIX):
        options, threads = tf.data.Options(), factor(job.variant, THREADS_PREFIX)
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
        made = (
            (loader[index] for index in range(loader.num_batches or LOADED)) if job.call.is_loader else loader
        )
        costs = profile(iter(made), rows(job.call.batch), job.meter.spec.window_s)
        for name, seconds in costs.items():
            job.events.metric(INPUT_ONLY, f"{STAGE_PREFIX}{name}", seconds)
        return
    for stage in stages(job.call.arguments["x"]):
        variant = f"{STAGE_PREFIX}{stage.name}"
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
        count = max(1, min(2 * count, round(count * DRAIN_CALL_S * 1e9 / elapsed_ns)))


def batches(dataset: tf.data.Dataset, names: Sequence[str]) -> Callable[[int], int]:
    """Return a function that pulls n batches in a compiled loop and returns their number of samples.

    The last batch of an epoch may be short.

    Args:
        names: devices to copy each batch's shares to; () for none.
    """
    return _puller(
        dataset.repeat(), lambda batch: (element_rows(batch), touch(batch, names)), "" if names else "CPU:0"
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
