"""Variants that call the baseline's compiled step once per batch.

They share one model and one compiled step, so that they differ only in the source of the batch (pipeline,
host memory or device memory) and its size.
"""

from __future__ import annotations

import itertools
import time
from contextlib import closing, nullcontext
from statistics import median
from typing import Any

import tensorflow as tf

from workloads.driver import building, pipeline, resident, steps
from workloads.driver.device_idle import Completions
from workloads.driver.job import Job
from workloads.driver.tuning import factor
from workloads.protocol import (
    BASELINE,
    BATCH_BYTES,
    BATCH_PREFIX,
    BUILD,
    CALLS_PREFIX,
    DATA,
    HOST_FED,
    RETRACES,
    RETRACING,
)

# next() on a ready batch takes tens of microseconds; the median of this many calls is subtracted from each
# wait.
OVERHEAD_CALLS = 200


def custom_loop(job: Job) -> None:
    """Train on the baseline's pipeline with next() outside the compiled step, and measure the input wait.

    Like Keras fit, it makes a new iterator per epoch and runs at most one step ahead of the device.
    """
    meter = job.meter
    began = meter.clock()
    step = _step(job)
    dataset = pipeline.as_dataset(pipeline.baseline(job))
    overhead_ns = _overhead_ns(job.shared.batch)
    batches = itertools.chain.from_iterable(itertools.repeat(dataset))
    meter.phase(BUILD, began)
    shapes: dict[Any, int] = {}
    began = time.monotonic_ns()
    total_ns = 0
    with closing(Completions()) if job.gpu else nullcontext() as completions:
        meter.begin()
        going = True
        while going:
            requested = time.monotonic_ns()
            batch = next(batches)
            received = time.monotonic_ns()
            # A CPU is idle for the whole wait, because its step is synchronous.
            idle = completions.idle_ns(requested, received) if completions else received - requested
            waited = max(0, idle - overhead_ns)
            loss = step(batch)
            if completions:
                completions.follow(loss)
            # A new shape is traced and compiled inside the call.
            shapes.setdefault(_shapes(batch), time.monotonic_ns() - received)
            total_ns += waited
            going = meter.tick(1, pipeline.size(batch), waited)
    job.shared.wait_share = total_ns / max(1, time.monotonic_ns() - began)
    if building.uses_xla(job.shared.model, job.params):
        retraces_ns = list(shapes.values())[1:]
        job.metric(RETRACES, len(retraces_ns))
        job.metric(RETRACING, sum(retraces_ns) / 1e9 / max(1, meter.steps))


def one_batch(job: Job) -> None:
    """Train repeatedly on one batch: in device memory, in host memory, or enlarged."""
    began = job.meter.clock()
    step = _step(job)
    batch = job.shared.batch
    times = factor(job.variant, BATCH_PREFIX)
    if times > 1:
        with tf.device("CPU:0"):
            batch = tf.nest.map_structure(lambda part: tf.concat([part] * times, 0), batch)
        # The shared step may be compiled for batches of the pipeline's size only.
        jit = building.uses_xla(job.shared.model, job.params)
        step = steps.compile_single(job.shared.model, None, jit=jit)
    source = "CPU:0" if job.variant == HOST_FED else job.devices[0]
    with tf.device(source):
        batch = tf.nest.map_structure(tf.identity, batch)
    job.meter.phase(BUILD, began)

    def call() -> Any:
        # TensorFlow caches a tensor's copy on the device; only a new handle, as from next(), is copied again.
        with tf.device(source):
            fresh = tf.nest.map_structure(tf.identity, batch)
        return step(fresh)  # outside the device scope, which would also place the step

    job.meter.loss = lambda: building.take_loss(job.shared.model)
    resident.drive(job.meter, call, steps=1, samples=pipeline.size(batch))


def many_a_call(job: Job) -> None:
    """Train on one batch in device memory with several steps per call, to measure launch overhead."""
    began = job.meter.clock()
    _step(job)
    model, per_call = job.shared.model, factor(job.variant, CALLS_PREFIX)
    run = steps.compile_train(model, steps.same, steps=per_call, jit=building.uses_xla(model, job.params))
    with tf.device(job.devices[0]):
        batch = tf.nest.map_structure(tf.identity, job.shared.batch)
        selection = tf.zeros([per_call, 1], tf.int32)
    job.meter.phase(DATA, began)
    job.meter.loss = lambda: building.take_loss(model)
    samples = per_call * pipeline.size(batch)
    resident.drive(job.meter, lambda: run(batch, selection), steps=per_call, samples=samples)


def _step(job: Job) -> Any:
    """Return the baseline's step, which the first call builds and compiles."""
    shared = job.shared
    if shared.step is None:
        model = shared.model = building.build(job.loaded.model, job.params, strategy=None, seed=job.spec.seed)
        dataset = pipeline.as_dataset(pipeline.baseline(job))
        shared.batch = next(iter(dataset))
        size = sum(part.dtype.size * int(tf.size(part)) for part in tf.nest.flatten(shared.batch))
        job.events.metric(BASELINE, BATCH_BYTES, float(size))
        with tf.device(job.devices[0]):
            building.make_variables(model, shared.batch)
        jit = building.uses_xla(model, job.params)
        shared.step = steps.compile_single(model, None if jit else dataset.element_spec, jit=jit)
    return shared.step


def _overhead_ns(batch: Any) -> int:
    """Return the duration of next() for a ready batch."""
    ready = iter(tf.data.Dataset.from_tensors(batch).repeat())
    costs = []
    for _ in range(OVERHEAD_CALLS):
        start = time.monotonic_ns()
        next(ready)
        costs.append(time.monotonic_ns() - start)
    return int(median(costs))


def _shapes(batch: Any) -> tuple[Any, ...]:
    return tuple(tuple(part.shape) for part in tf.nest.flatten(batch))
