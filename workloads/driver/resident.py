"""Training loops on data in device memory instead of Keras fit's pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import building, pipeline, replicas, steps
from workloads.driver.job import Job
from workloads.driver.timing import Meter
from workloads.driver.workload_file import check_split
from workloads.protocol import BUILD, DATA


def train(job: Job) -> Any:
    """Train on data in device memory, `steps_per_execution` steps per call; return the first replica.

    A workload that only has a pipeline trains on one of its batches.
    """
    params, meter = job.params, job.meter
    batch, per_call = params["batch_size"], params["steps_per_execution"]
    began = meter.clock()
    models = replicas.build(job)
    began = meter.phase(BUILD, began)
    whole = job.part("train")
    x, y = whole if whole is not None else first_batch(job)
    jit = building.uses_xla(models[0], params)
    for model, name in zip(models, job.devices, strict=True):
        with tf.device(name):
            building.make_variables(model, (x[:batch], y[:batch]))
    run = _compiled(job, models, steps.same if whole is None else steps.gather, per_call, jit=jit)
    tensors = on_devices(job, (x, y))
    meter.phase(DATA, began)
    samples = per_call * (len(x) if whole is None else batch) * job.replicas
    if whole is None:
        chosen = itertools.repeat(tf.zeros([per_call, job.replicas, 1], tf.int32))
    else:
        shape = (per_call, job.replicas, batch)
        chosen = (tf.constant(indices.reshape(shape)) for indices in shuffled(len(x), samples, job.spec.seed))
    workload = job.workload
    epoch_samples = workload.samples_per_epoch or (workload.data.train if whole is None else len(x))
    meter.loss = lambda: building.take_loss(models[0])
    drive(
        meter, lambda: run(tensors, next(chosen)),
        steps=per_call, samples=samples, total=params["epochs"] * epoch_samples if meter.full else 0,
    )  # fmt: skip
    return models[0]


def _compiled(job: Job, models: Sequence[Any], pick: steps.Pick, per_call: int, *, jit: bool) -> Any:
    if job.replicas > 1:
        return replicas.compile_train(job, models, pick, steps=per_call, jit=jit)

    def pick_first(tensors: Any, chosen: Any) -> tuple[Any, Any]:
        return pick(tensors[0], chosen[0])

    return steps.compile_train(models[0], pick_first, steps=per_call, jit=jit)


def mirrored_batch(job: Job) -> None:
    """Train with Keras' step under the strategy on one batch in each device's memory."""
    params, meter, strategy = job.params, job.meter, job.strategy
    began = meter.clock()
    model = building.build(job.loaded.model, params, strategy=strategy, seed=job.spec.seed)
    began = meter.phase(BUILD, began)
    x, y = first_batch(job)
    building.make_variables(model, (x, y), strategy)
    copies = on_devices(job, (x, y))
    batch = tuple(
        strategy.experimental_distribute_values_from_function(
            lambda context, part=part: copies[context.replica_id_in_sync_group % len(copies)][part]
        )
        for part in range(2)
    )
    run = steps.compile_mirrored(model, strategy)
    meter.phase(DATA, began)
    meter.loss = lambda: building.take_loss(model)
    drive(meter, lambda: run(batch), steps=1, samples=len(x) * job.replicas)


def drive(meter: Meter, call: Callable[[], Any], *, steps: int, samples: int, total: int = 0) -> None:
    """Call repeatedly until the meter stops or, unless `total` is 0, that many samples are done."""
    meter.begin()
    pending = None
    while not total or meter.samples < total:
        result = call()
        # At most one call ahead of the device, which keeps it busy and windows accurate.
        if pending is not None:
            pending.numpy()
        pending = result
        if not meter.tick(steps, samples, 0):
            return


def shuffled(count: int, size: int, seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Yield int32[size] indices from consecutive shuffled epochs of `count` samples.

    Keras' last batch of an epoch is short; here it is filled from the next epoch, so that all batches have
    the same shape. Each sample still occurs once per epoch.
    """
    random = np.random.default_rng(seed)
    left = np.empty(0, np.int32)
    while True:
        while len(left) < size:
            left = np.concatenate([left, random.permutation(count).astype(np.int32)])
        yield left[:size]
        left = left[size:]


def on_devices(job: Job, tensors: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
    """Copy arrays to each device of this process."""
    copies = []
    for name in job.devices:
        with tf.device(name):
            copies.append(tuple(tf.identity(tf.convert_to_tensor(tensor)) for tensor in tensors))
    return copies


def first_batch(job: Job, size: int = 0) -> tuple[Any, Any]:
    """Return one device's batch, or `size` samples, as (x, y) from the arrays or the pipeline."""
    if job.train is not None:
        x, y = job.train
        return x[: size or job.params["batch_size"]], y[: size or job.params["batch_size"]]
    source = pipeline.assemble(job.stages(size))
    return check_split(source[0] if pipeline.is_loader(source) else next(iter(source)), "dataset")
