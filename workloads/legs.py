"""The legs of a training workload. Each runs until its meter says stop, and knows nothing of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import building, pipeline, steps
from workloads.job import Job
from workloads.protocol import AS_WRITTEN, BUILD, DATA, EVALUATE, TUNED
from workloads.timing import Meter

# Fit is stopped by a callback; this many epochs are never reached.
ENDLESS = 1_000_000
EVALUATE_BATCH = 1000
# How long one call that drains the pipeline should take: short beside a window, long beside its own cost.
DRAIN_CALL_S = 0.02


class Boundaries(tf.keras.callbacks.Callback):
    """Report step boundaries of Keras fit to a meter.

    It has no on_train_batch_end: with one, Keras 3 reads the loss back after every step on the thread that
    launches the steps, which is just what an undisturbed fit does not do.

    Args:
        batch: samples a step, all devices together.
        samples: samples an epoch; None where the number of batches is all that is known.
        stride: steps that one call runs (steps_per_execution).
    """

    def __init__(self, meter: Meter, *, batch: int, samples: int | None, stride: int) -> None:
        super().__init__()
        self._meter = meter
        self._batch = batch
        self._samples = samples
        self._stride = stride
        self._last = -1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Report the steps since the last boundary."""
        if self._last >= 0:
            self._report(batch)
        self._last = batch

    def on_train_end(self, logs: Any = None) -> None:
        """Report the last steps of the last epoch."""
        if self._last >= 0:
            self._report(0)
        self._last = -1

    def _report(self, batch: int) -> None:
        an_epoch = self.params.get("steps") or self._last + self._stride
        done = batch - self._last if batch > self._last else an_epoch - self._last
        samples = done * self._batch
        if batch <= self._last and self._samples is not None:
            samples = self._samples - self._last * self._batch
        if not self._meter.tick(done, samples):
            self.model.stop_training = True


def train(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run as-written, tuned or a rung: build, train until told to stop, evaluate."""
    began = meter.now()
    factory = job.author.model if leg == AS_WRITTEN else job.author.tuned_model
    model = building.build(factory, params, strategy=job.strategy, seed=job.spec.seed)
    meter.phase(BUILD, began)
    if params["feed"] == "resident":
        _resident(job, params, meter, model)
    else:
        _fit(job, params, meter, model)
    if meter.full:
        job.metric(leg, "training_s", meter.finish(), "s")
    job.metric(leg, "steps_trained", meter.steps, "steps")
    if meter.last_loss is not None:
        job.metric(leg, "final_loss", meter.last_loss, "loss")
    _evaluate(job, leg, meter, model)


def _fit(job: Job, params: Mapping[str, Any], meter: Meter, model: Any) -> None:
    batch = params["batch_size"] * job.replicas
    epochs = params["epochs"] if meter.full else ENDLESS
    meter.loss = lambda: building.running_loss(model)
    stride = params["steps_per_execution"]
    if job.train is not None:
        x, y = job.train
        boundaries = Boundaries(meter, batch=batch, samples=len(x), stride=stride)
        meter.begin()
        model.fit(x, y, batch_size=batch, epochs=epochs, verbose=2, callbacks=[boundaries])
        return
    dataset = pipeline.assemble(job.stages({**params, "batch_size": batch}))
    if params["prefetch_to_device"] and job.gpu and job.strategy is None:
        dataset = dataset.apply(tf.data.experimental.prefetch_to_device(f"/{job.devices[0]}", 2))
    boundaries = Boundaries(meter, batch=batch, samples=None, stride=stride)
    meter.begin()
    model.fit(dataset, epochs=epochs, verbose=2, callbacks=[boundaries])


def _resident(job: Job, params: Mapping[str, Any], meter: Meter, model: Any) -> None:
    """Train on data that lies on the device, `steps_per_execution` steps a call."""
    batch, per_call = params["batch_size"], params["steps_per_execution"]
    if job.train is None:
        one_batch(job, params, meter, model, per_call=per_call)
        return
    x, y = job.train
    began = meter.now()
    with job.strategy.scope() if job.strategy else tf.device(job.devices[0]):
        building.make_variables(model, x[:batch], y[:batch])
        run = steps.compile_train(
            model, steps.gather, steps=per_call, jit=bool(params["jit_compile"]), strategy=job.strategy
        )
        tensors = on_device(job, (x, y))
    meter.phase(DATA, began)
    an_call = per_call * batch * job.replicas
    order = Permutations(len(x), job.spec.seed)
    shape = (per_call, batch) if job.strategy is None else (per_call, job.replicas, batch)
    _drive(
        meter, model, lambda: run(tensors, tf.constant(order.take(an_call).reshape(shape))),
        steps=per_call, samples=an_call, total=params["epochs"] * len(x) if meter.full else 0,
    )  # fmt: skip


def _drive(meter: Meter, model: Any, call: Any, *, steps: int, samples: int, total: int) -> None:
    """Call until the meter says stop or, where `total` is not 0, that many samples are done."""
    meter.loss = lambda: building.take_loss(model)
    meter.begin()
    pending = None
    while not total or meter.samples < total:
        loss = call()
        # At most one call ahead of the device: that keeps it busy, and windows end where they should.
        if pending is not None:
            pending.numpy()
        pending = loss
        if not meter.tick(steps, samples, 0):
            return


class Permutations:
    """Indices of one shuffled epoch after the other, cut wherever the caller likes.

    Keras' last batch of an epoch is short; here it is filled from the next epoch, so that all batches have
    one shape. Every sample still comes once an epoch.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._random = np.random.default_rng(seed)
        self._left = np.empty(0, np.int32)

    def take(self, number: int) -> np.ndarray[Any, Any]:
        """Return the next `number` indices, int32[number]."""
        parts = [self._left]
        missing = number - len(self._left)
        while missing > 0:
            parts.append(self._random.permutation(self._count).astype(np.int32))
            missing -= self._count
        joined = np.concatenate(parts)
        self._left = joined[number:]
        return joined[:number]


def on_device(job: Job, tensors: tuple[Any, ...]) -> Any:
    """Put arrays onto the device, a copy on each where there are several."""
    if job.strategy is None:
        with tf.device(job.devices[0]):
            return tuple(tf.identity(tf.convert_to_tensor(tensor)) for tensor in tensors)
    return tuple(
        job.strategy.experimental_distribute_values_from_function(
            lambda _, tensor=tensor: tf.identity(tf.convert_to_tensor(tensor))
        )
        for tensor in tensors
    )


def model_only(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Train on one resident batch again and again, one call a step: the model's own ceiling."""
    began = meter.now()
    model = building.build(job.author.model, params, strategy=job.strategy, seed=job.spec.seed)
    meter.phase(BUILD, began)
    one_batch(job, params, meter, model, per_call=1)


def one_batch(job: Job, params: Mapping[str, Any], meter: Meter, model: Any, *, per_call: int) -> None:
    """Train on one batch that lies on the device until the meter says stop."""
    batch = params["batch_size"]
    began = meter.now()
    x, y = first_batch(job, params)
    jit = params["jit_compile"]
    if jit is None:
        jit = bool(getattr(model, "jit_compile", False))
    with job.strategy.scope() if job.strategy else tf.device(job.devices[0]):
        building.make_variables(model, x, y)
        run = steps.compile_train(model, steps.same, steps=per_call, jit=jit, strategy=job.strategy)
        tensors = on_device(job, (x, y))
        selection = tf.zeros([per_call, job.replicas], tf.int32)
    meter.phase(DATA, began)
    total = params["epochs"] * job.author.workload.data.train if meter.full else 0
    samples = per_call * batch * job.replicas
    _drive(meter, model, lambda: run(tensors, selection), steps=per_call, samples=samples, total=total)


def first_batch(job: Job, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return one device's batch, (x, y), from the arrays or from the workload's own pipeline."""
    batch = params["batch_size"]
    if job.train is not None:
        return job.train[0][:batch], job.train[1][:batch]
    return next(iter(pipeline.assemble(job.stages(params))))


def input_only(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Drain the input pipeline, or its first stages, with no model: the pipeline's own ceiling."""
    began = meter.now()
    batch = params["batch_size"] * job.replicas
    stage = pipeline.prefix_of(leg)
    if job.train is not None:
        dataset = pipeline.from_arrays(*job.train, batch)
    else:
        dataset = pipeline.assemble(job.stages({**params, "batch_size": batch}), stage)
    pull = pipeline.drain(dataset, "" if stage else job.devices[0])
    per_element = batch if not stage or _batched(job, params, stage) else 1
    meter.phase(BUILD, began)
    meter.begin()
    count, going = 1, True
    while going:
        start = time.monotonic_ns()
        pull(count)
        took = time.monotonic_ns() - start
        going = meter.tick(count, count * per_element, took)
        count = max(1, min(2 * count, round(count * DRAIN_CALL_S * 1e9 / took)))


def _batched(job: Job, params: Mapping[str, Any], stage: str) -> bool:
    names = [name for name, _ in job.stages(params)]
    return "batch" in names and names.index(stage) >= names.index("batch")


def _evaluate(job: Job, leg: str, meter: Meter, model: Any) -> None:
    if job.test is None or leg not in (AS_WRITTEN, TUNED):
        return
    began = meter.now()
    x, y = job.test
    found = model.evaluate(x, y, batch_size=EVALUATE_BATCH, verbose=0, return_dict=True)
    meter.phase(EVALUATE, began)
    for name, value in found.items():
        accuracy = "acc" in name
        job.metric(leg, "accuracy" if accuracy else f"test_{name}", value, "share" if accuracy else "loss")
