"""How each variant of the breakdown is measured, and those that call the baseline's compiled step once per batch.

The latter share one model and one compiled step, so that they differ only in the source of the batch (pipeline,
host memory or device memory) and its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from statistics import median
from typing import Any

import tensorflow as tf

from workloads import variants
from workloads.driver import draining, generation, inference, keras_model, training
from workloads.driver.call import rows
from workloads.driver.job import Job
from workloads.driver.pipelines import class_of, pipelines
from workloads.driver.script import ScriptError
from workloads.driver.timing import COMPILED_SIZES, Completions, Meter, UsualStep, drive
from workloads.protocol import BATCH_BYTES, BETWEEN_EPOCHS, BUILD, DATA, FILLING, RETRACING
from workloads.variants import BASELINE, BATCH, CALLS, HOST_FED


def measure(job: Job, meter: Callable[[str], Meter]) -> None:
    """Measure a variant of the breakdown until its meter ends it."""
    serves = job.spec.requests is not None
    match job.variant:
        case variants.STAGES:
            draining.drain_stages(job, meter)
        case variants.INPUT_ONLY:
            draining.drain(job)
        case variants.MODEL_ONLY if job.strategy is not None:
            mirrored_batch(job)
        case variants.MODEL_ONLY if serves and job.call.new_tokens:
            generation.model_only(job)
        case variants.MODEL_ONLY | variants.HOST_FED:
            inference.model_only(job) if serves else one_batch(job)
        case variants.CUSTOM_LOOP:
            custom_loop(job)
        case name if variants.BATCH.has(name):
            inference.model_only(job) if serves else one_batch(job)
        case name if variants.CALLS.has(name):
            several_per_call(job)
        case name if variants.THREADS.has(name):
            draining.drain(job)
        case name if variants.kind_of(name).ablation:
            training.ablation(job)
        case unknown:
            raise ValueError(f"{unknown} is no variant of the breakdown")


def custom_loop(job: Job) -> None:
    """Train on the baseline's pipeline with next() outside the compiled step, and measure the input wait.

    Like Keras fit, it makes a new iterator per epoch and runs at most one step ahead of the device.
    """
    meter = job.meter
    began = meter.clock()
    step = _step(job)
    overhead_ns = _overhead_ns(job.call.batch)
    batches = _endless(job.call.dataset)
    meter.phase(BUILD, began)
    shapes: dict[Any, int] = {}
    usual = UsualStep(COMPILED_SIZES)
    between_ns = filling_ns = 0
    with closing(Completions()) if job.gpu else nullcontext() as completions:
        meter.begin()
        going = True
        while going:
            requested = time.monotonic_ns()
            batch, filled_ns = next(batches)
            received = time.monotonic_ns()
            # A CPU is idle for the whole wait, because its step is synchronous.
            idle = completions.idle_ns(requested, received) if completions else received - requested
            waited = max(0, idle - overhead_ns)
            if filled_ns and meter.steps:
                # A new iterator, which fills its buffers: Keras fit waits for it between epochs.
                meter.pause(waited)
                filling_ns += min(waited, filled_ns)
                between_ns, waited = between_ns + waited, 0
            loss = step(batch)
            if completions:
                completions.follow(loss)
            # A new shape is traced and compiled inside the call.
            shape = tuple(tuple(part.shape) for part in tf.nest.flatten(batch))
            length_ns = time.monotonic_ns() - received
            if shape in shapes:
                usual.note(length_ns)
            else:
                shapes[shape] = length_ns
                meter.pause(usual.compiled_ns(length_ns))
            going = meter.tick(1, rows(batch), waited)
    job.metric(BETWEEN_EPOCHS, between_ns / 1e9 / max(1, meter.steps))
    if any(class_of(each) == "ShuffleDataset" for each in pipelines(job.call.dataset)):
        job.metric(FILLING, filling_ns / 1e9 / max(1, meter.steps))
    if job.call.model.jit_compile and len(shapes) > COMPILED_SIZES:
        job.metric(RETRACING, sum(list(shapes.values())[1:]) / 1e9 / max(1, meter.steps))


def one_batch(job: Job) -> None:
    """Train repeatedly on one batch: in device memory, in host memory, or enlarged."""
    began = job.meter.clock()
    step = _step(job)
    batch = job.call.batch
    times = BATCH.number(job.variant)
    if times > 1:
        with tf.device("CPU:0"):
            batch = tf.nest.map_structure(lambda part: tf.concat([part] * times, 0), batch)
        if not _takes(job.call.dataset.element_spec, batch):
            step = keras_model.compile_single(job.call, None, jit=job.call.model.jit_compile)
    source = "CPU:0" if job.variant == HOST_FED else job.devices[0]
    with tf.device(source):
        batch = tf.nest.map_structure(tf.identity, batch)
    job.meter.phase(BUILD, began)

    def call() -> Any:
        # TensorFlow caches a tensor's copy on the device; only a new handle, as from next(), is copied again.
        with tf.device(source):
            fresh = tf.nest.map_structure(tf.identity, batch)
        return step(fresh)  # outside the device scope, which would also place the step

    job.meter.loss = lambda: keras_model.take_loss(job.call.model)
    drive(job.meter, call, steps=1, samples=rows(batch))


def several_per_call(job: Job) -> None:
    """Train on one batch in device memory with several steps per call, to measure launch overhead."""
    began = job.meter.clock()
    _step(job)
    model, per_call = job.call.model, CALLS.number(job.variant)
    jit = model.jit_compile
    run = keras_model.compile_many(
        job.call, None if jit else job.call.dataset.element_spec, steps=per_call, jit=jit
    )
    with tf.device(job.devices[0]):
        batch = tf.nest.map_structure(tf.identity, job.call.batch)
    job.meter.phase(DATA, began)
    job.meter.loss = lambda: keras_model.take_loss(model)
    drive(job.meter, lambda: run(batch), steps=per_call, samples=per_call * rows(batch))


def mirrored_batch(job: Job) -> None:
    """Train with Keras' step under the strategy on one batch in each device's memory."""
    meter, strategy, model = job.meter, job.strategy, job.call.model
    began = meter.clock()
    shares = [
        tf.nest.map_structure(lambda part: part[: rows(job.call.batch) // len(job.devices)], job.call.batch)
    ]
    copies = []
    for name in job.devices:
        with tf.device(name):
            copies.append(tf.nest.flatten(tf.nest.map_structure(tf.identity, shares[0])))
    assert strategy is not None  # only called with several devices
    parts = [
        strategy.experimental_distribute_values_from_function(
            lambda context, number=number: copies[context.replica_id_in_sync_group % len(copies)][number]
        )
        for number in range(len(copies[0]))
    ]
    batch = tf.nest.pack_sequence_as(job.call.batch, parts)
    run = keras_model.compile_mirrored(job.call, strategy)
    meter.phase(DATA, began)
    meter.loss = lambda: keras_model.take_loss(model)
    drive(meter, lambda: run(batch), steps=1, samples=rows(shares[0]) * len(job.devices))


def _endless(dataset: tf.data.Dataset) -> Iterator[tuple[Any, int]]:
    """Yield the batches of consecutive epochs, each with the nanoseconds of the first of its epoch; 0 with others."""
    while True:
        iterator = iter(dataset)
        began = time.monotonic_ns()
        batch = next(iterator, None)
        if batch is None:
            raise ScriptError("The generator has no more batches. Make it endless, and give steps_per_epoch.")
        yield batch, max(1, time.monotonic_ns() - began)
        for batch in iterator:
            yield batch, 0


def _step(job: Job) -> Any:
    """Return the baseline's step, compiled once; start from the baseline's first weights."""
    call = job.call
    call.restore_state()
    if call.step is None:
        size = sum(
            part.dtype.size * int(tf.size(part))
            for part in tf.nest.flatten(call.batch, expand_composites=True)
        )
        job.events.metric(BASELINE, BATCH_BYTES, float(size))
        jit = call.model.jit_compile
        call.step = keras_model.compile_single(call, None if jit else call.dataset.element_spec, jit=jit)
    return call.step


def _takes(spec: Any, batch: Any) -> bool:
    """Return whether a step that was compiled for this element_spec takes the batch."""
    parts = zip(tf.nest.flatten(spec), tf.nest.flatten(batch), strict=True)
    return all(each.is_compatible_with(part) for each, part in parts)


def _overhead_ns(batch: Any) -> int:
    """Return the duration of next() for a ready batch."""
    ready = iter(tf.data.Dataset.from_tensors(batch).repeat())
    costs = []
    # It takes tens of microseconds; the median is subtracted from each wait.
    for _ in range(200):
        start = time.monotonic_ns()
        next(ready)
        costs.append(time.monotonic_ns() - start)
    return int(median(costs))
