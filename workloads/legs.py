"""The legs of a training workload. Each runs until its meter says stop, and knows nothing of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import building, pipeline, resident
from workloads.job import Job
from workloads.protocol import AS_WRITTEN, BUILD, EVALUATE, TUNED
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
        resident.train(job, params, meter, model)
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


def model_only(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Train on one resident batch again and again, one call a step: the model's own ceiling."""
    began = meter.now()
    model = building.build(job.author.model, params, strategy=job.strategy, seed=job.spec.seed)
    meter.phase(BUILD, began)
    resident.one_batch(job, params, meter, model, per_call=1)


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
