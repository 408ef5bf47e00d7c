"""Variants that call baseline's compiled step once for each batch, wherever the batch comes from.

They share one model and one compiled step, so that they differ in nothing but where the batch comes from: a
pipeline, host memory, or the device itself; and how large it is.
"""

from __future__ import annotations

import itertools
import time
from contextlib import closing, nullcontext
from statistics import median
from typing import Any

import tensorflow as tf

from workloads import building, pipeline, resident, steps
from workloads.completions import Completions
from workloads.job import Job
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
from workloads.tuning import factor

# next() on a batch that is ready costs Python and TensorFlow some tens of microseconds; the median of so many
# is taken off every wait.
FLOOR_CALLS = 200


def custom_loop(job: Job) -> None:
    """Train on baseline's pipeline with next() outside the compiled step, and tell the time spent waiting.

    As Keras fit does, it asks for a new iterator each epoch, and runs at most one step ahead of the device.
    """
    meter = job.meter
    began = meter.clock()
    step = _step(job)
    dataset = pipeline.as_dataset(pipeline.baseline(job))
    floor_ns = _floor_ns(job.shared.batch)
    batches = itertools.chain.from_iterable(itertools.repeat(dataset))
    meter.phase(BUILD, began)
    shapes: dict[Any, int] = {}
    began = time.monotonic_ns()
    total_ns = 0
    with closing(Completions()) if job.gpu else nullcontext() as completions:
        meter.begin()
        going = True
        while going:
            asked = time.monotonic_ns()
            batch = next(batches)
            got = time.monotonic_ns()
            # A CPU is idle for all of the wait: it computes before the call returns.
            idle = completions.idle_ns(asked, got) if completions else got - asked
            waited = max(0, idle - floor_ns)
            loss = step(batch)
            if completions:
                completions.follow(loss)
            # A shape that was not met before is traced and compiled inside the call.
            shapes.setdefault(_shapes(batch), time.monotonic_ns() - got)
            total_ns += waited
            going = meter.tick(1, pipeline.size(batch), waited)
    job.shared.wait_share = total_ns / max(1, time.monotonic_ns() - began)
    if building.uses_xla(job.shared.model, job.params):
        again_ns = list(shapes.values())[1:]
        job.metric(RETRACES, len(again_ns))
        job.metric(RETRACING, sum(again_ns) / 1e9 / max(1, meter.steps))


def one_batch(job: Job) -> None:
    """Train on one batch again and again: on the device, in host memory, or several times as large."""
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
    place = "CPU:0" if job.variant == HOST_FED else job.devices[0]
    with tf.device(place):
        batch = tf.nest.map_structure(tf.identity, batch)
    job.meter.phase(BUILD, began)

    def call() -> Any:
        # TensorFlow keeps a tensor's copy on the device: only a new handle, as next() gives, is copied anew.
        with tf.device(place):
            fresh = tf.nest.map_structure(tf.identity, batch)
        return step(fresh)  # in the scope of a device the step itself would run there

    job.meter.loss = lambda: building.take_loss(job.shared.model)
    resident.drive(job.meter, call, steps=1, samples=pipeline.size(batch))


def many_a_call(job: Job) -> None:
    """Train on one batch on the device, several steps in one call: what calling each by itself costs."""
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
    """Return baseline's step, built and compiled by the first variant that asks for it."""
    shared = job.shared
    if shared.step is None:
        model = shared.model = building.build(job.loaded.model, job.params, strategy=None, seed=job.spec.seed)
        dataset = pipeline.as_dataset(pipeline.baseline(job))
        shared.batch = next(iter(dataset))
        size = sum(part.dtype.size * int(tf.size(part)) for part in tf.nest.flatten(shared.batch))
        job.events.metric(BASELINE, BATCH_BYTES, float(size))
        with tf.device(job.devices[0]):
            building.make_variables(model, *shared.batch[:2])
        jit = building.uses_xla(model, job.params)
        shared.step = steps.compile_single(model, None if jit else dataset.element_spec, jit=jit)
    return shared.step


def _floor_ns(batch: Any) -> int:
    """Return what next() costs when the batch is ready."""
    ready = iter(tf.data.Dataset.from_tensors(batch).repeat())
    costs = []
    for _ in range(FLOOR_CALLS):
        start = time.monotonic_ns()
        next(ready)
        costs.append(time.monotonic_ns() - start)
    return int(median(costs))


def _shapes(batch: Any) -> tuple[Any, ...]:
    return tuple(tuple(part.shape) for part in tf.nest.flatten(batch))
