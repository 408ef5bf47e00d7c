"""Training loops that feed from the device's own memory instead of from Keras fit's pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import building, loaders, pipeline, steps
from workloads.job import Job
from workloads.protocol import DATA
from workloads.timing import Meter


def train(job: Job, params: Mapping[str, Any], meter: Meter, model: Any) -> None:
    """Train on data that lies on the device, `steps_per_execution` steps a call."""
    batch, per_call = params["batch_size"], params["steps_per_execution"]
    began = meter.now()
    train = job.resident(params)
    if train is None:
        one_batch(job, params, meter, model, per_call=per_call)
        return
    x, y = train
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
    an_epoch = job.author.workload.samples_per_epoch or len(x)
    drive(
        meter, model, lambda: run(tensors, tf.constant(order.take(an_call).reshape(shape))),
        steps=per_call, samples=an_call, total=params["epochs"] * an_epoch if meter.full else 0,
    )  # fmt: skip


def drive(meter: Meter, model: Any, call: Callable[[], Any], *, steps: int, samples: int, total: int) -> None:
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
    # The strategy puts what the function makes onto the first device: from there it would cross to the others
    # at every step.
    places = job.strategy.extended.worker_devices

    def own(context: Any, tensor: Any) -> Any:
        with tf.device(places[context.replica_id_in_sync_group % len(places)]):
            return tf.identity(tf.convert_to_tensor(tensor))

    return tuple(
        job.strategy.experimental_distribute_values_from_function(partial(own, tensor=tensor))
        for tensor in tensors
    )


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
    workload = job.author.workload
    total = params["epochs"] * (workload.samples_per_epoch or workload.data.train) if meter.full else 0
    samples = per_call * batch * job.replicas
    drive(meter, model, lambda: run(tensors, selection), steps=per_call, samples=samples, total=total)


def first_batch(job: Job, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return one device's batch, (x, y), from the arrays or from the workload's own pipeline."""
    batch = params["batch_size"]
    if job.train is not None:
        return job.train[0][:batch], job.train[1][:batch]
    source = pipeline.assemble(job.stages(params))
    return source[0] if loaders.is_loader(source) else next(iter(source))
