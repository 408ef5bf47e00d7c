"""The variants of a training workload. Each runs until its meter says stop, and knows nothing of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import author, building, loaders, pipeline, replicas, resident, together
from workloads.job import Job
from workloads.protocol import (
    BASELINE,
    BUILD,
    CALLBACKS,
    EVALUATE,
    OPTIMIZATION_PREFIX,
    PYTHON_IN_STEP,
    RUN_EAGERLY,
    TUNED,
)
from workloads.python_calls import Stopwatch
from workloads.timing import Meter

# Fit is stopped by a callback; this many epochs are never reached.
ENDLESS = 1_000_000
EVALUATE_BATCH = 1000
# A measurement does not evaluate for longer; a whole training goes through all of the held-out data.
EVALUATE_S = 10.0
EVALUATE_LEAST = 100


class Boundaries(tf.keras.callbacks.Callback):
    """Report step boundaries of Keras fit to a meter.

    It has no on_train_batch_end: with one, Keras 3 reads the loss back after every step on the thread that
    launches the steps, which is just what an undisturbed fit does not do.

    Args:
        once: what going through the input once gives.
        stride: steps that one call runs (steps_per_execution).
        waits: all of the time is waiting for input, since nothing is computed.
    """

    def __init__(self, meter: Meter, *, once: pipeline.Pass, stride: int, waits: bool = False) -> None:
        super().__init__()
        self._meter = meter
        self._once = once
        self._stride = stride
        self._waits = waits
        self._last = -1
        self._steps = 0
        self._ticked_ns = meter.now()

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
        once = self._once
        done = batch - self._last if batch > self._last else self._at_the_end()
        samples = done * once.batch
        if once.batches:
            passes = (self._steps + done) // once.batches - self._steps // once.batches
            samples -= passes * once.short
        self._steps += done
        waited = self._meter.now() - self._ticked_ns if self._waits else -1
        if not self._meter.tick(done, samples, waited):
            self.model.stop_training = True
        self._ticked_ns = self._meter.now()

    def _at_the_end(self) -> int:
        """Return how many steps the last call of an epoch ran."""
        an_epoch = self.params.get("steps")
        left = an_epoch - self._last if an_epoch else self._stride
        if self._once.batches and self._once.ends:
            left = min(left, self._once.batches - self._steps % self._once.batches)
        elif not an_epoch or left > self._stride:
            # Keras (3.15) learns that such an input has ended by a call that finds no batch.
            return 0
        return min(self._stride, left)


def train(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run the baseline, or a variant that changes it: build, train until told to stop, evaluate."""
    began = meter.now()
    optimized = variant == TUNED or variant.startswith(OPTIMIZATION_PREFIX)
    factory = job.author.tuned_model if optimized else job.author.model
    in_python, in_callbacks = Stopwatch(), Stopwatch()
    with in_python.python_functions():
        if params["feed"] == "resident":
            models = replicas.build(job, factory, params)
        else:
            models = [building.build(factory, params, strategy=job.strategy, seed=job.spec.seed)]
    model = models[0]
    meter.phase(BUILD, began)
    if params["feed"] == "resident":
        resident.train(job, params, meter, models)
    elif job.spec.workers:
        together.fit(job, params, meter, model)
    else:
        own = job.author.callbacks(params) if job.author.callbacks and params["callbacks"] else ()
        _fit(job, variant, params, meter, model, in_callbacks.callbacks(list(own)), in_python)
    if variant == BASELINE:
        _report_framework(job, meter, model, in_python, in_callbacks)
    if meter.full:
        job.events.metric(variant, "training_s", meter.finish(), "s")
    job.events.metric(variant, "steps_trained", meter.steps, "steps")
    if meter.last_loss is not None:
        job.events.metric(variant, "final_loss", meter.last_loss, "loss")
    _evaluate(job, variant, params, meter, model)


def _report_framework(
    job: Job, meter: Meter, model: Any, in_python: Stopwatch, in_callbacks: Stopwatch
) -> None:
    """Write what Python did in and around the baseline's steps."""
    eager = bool(getattr(model, "run_eagerly", False))
    job.shared.eager, job.shared.callbacks = eager, in_callbacks.wrapped
    job.events.metric(BASELINE, RUN_EAGERLY, float(eager), "bool")
    for name, stopwatch in ((PYTHON_IN_STEP, in_python), (CALLBACKS, in_callbacks)):
        if stopwatch.wrapped and not (eager and stopwatch is in_python):
            job.events.metric(BASELINE, name, stopwatch.total_ns / 1e9 / max(1, meter.steps), "s")


def _fit(
    job: Job,
    variant: str,
    params: Mapping[str, Any],
    meter: Meter,
    model: Any,
    own: Sequence[Any],
    in_python: Stopwatch,
) -> None:
    meter.loss = lambda: building.running_loss(model)
    given, once = _input(job, variant, params, meter)
    boundaries = Boundaries(meter, once=once, stride=params["steps_per_execution"])
    epochs = params["epochs"] if meter.full else ENDLESS
    meter.begin()
    with in_python.python_functions():
        model.fit(**given, epochs=epochs, verbose=2, callbacks=[*own, boundaries])


def _input(
    job: Job, variant: str, params: Mapping[str, Any], meter: Meter
) -> tuple[Mapping[str, Any], pipeline.Pass]:
    """Return what Keras fit is fed with, as its arguments, and what going through it once gives."""
    batch = params["batch_size"] * job.replicas
    if params["feed"] == "memory":
        ready, once, steps = pipeline.from_memory(job, params)
        return {"x": ready, "steps_per_epoch": steps, "shuffle": False}, once
    if job.train is not None:
        x, y = job.train
        batches = -(-len(x) // batch)
        return {"x": x, "y": y, "batch_size": batch}, pipeline.Pass(batch, batches, batches * batch - len(x))
    source = pipeline.baseline(job, params)
    an_epoch = job.author.workload.samples_per_epoch // batch or None
    if meter.full and not an_epoch and pipeline.endless(source):
        raise author.AuthorError(
            f"{job.author.workload.name}'s pipeline is endless, so its epochs have no end: "
            f"declare samples_per_epoch, at least one batch of {batch}."
        )
    once = pipeline.one_pass(job, params, source)
    if not once.sure:
        text = (
            f"{variant}: the batch size of the pipeline is unknown and taken to be {batch}: "
            "name the stage that batches `batch`, or use drop_remainder=True."
        )
        job.events.write("warning", message=text)
    if not loaders.is_loader(source) and params["prefetch_to_device"] and job.gpu and job.strategy is None:
        source = source.apply(tf.data.experimental.prefetch_to_device(f"/{job.devices[0]}", 2))
    # A loader shuffles by itself, and so does a pipeline that wants to be shuffled.
    return {"x": source, "steps_per_epoch": an_epoch, "shuffle": False}, once


def model_only(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Train several devices on one resident batch again and again: the model's own ceiling."""
    began = meter.now()
    model = building.build(job.author.model, params, strategy=job.strategy, seed=job.spec.seed)
    meter.phase(BUILD, began)
    resident.mirrored_batch(job, params, meter, model)


def drain_loader(job: Job, meter: Meter, loader: Any, batch: int, began: int) -> None:
    """Drain a Python loader by the fit of a model that computes nothing; every stage of it gives batches."""
    model = loaders.drain_model(job.devices)
    boundaries = Boundaries(meter, once=pipeline.loader_pass(loader, batch), stride=1, waits=True)
    meter.phase(BUILD, began)
    meter.begin()
    model.fit(loader, epochs=ENDLESS, shuffle=False, verbose=0, callbacks=[boundaries])


def _evaluate(job: Job, variant: str, params: Mapping[str, Any], meter: Meter, model: Any) -> None:
    # Keras' evaluate fails as its fit does with several workers; see together.py.
    if variant not in (BASELINE, TUNED) or job.spec.workers or not job.spec.evaluate:
        return
    began = meter.now()
    held_out = job.held_out(params)
    if held_out is None:
        return
    x, y = held_out
    # XLA would compile each shape for seconds, to use it once.
    model.jit_compile = False
    count = _affordable(model, x) if not meter.full else len(x)
    # Spread over the whole part, which may lie in the order of its classes.
    chosen = np.linspace(0, len(x) - 1, count).astype(np.int64) if count < len(x) else slice(None)
    found = model.evaluate(x[chosen], y[chosen], batch_size=EVALUATE_BATCH, verbose=0, return_dict=True)
    meter.phase(EVALUATE, began)
    for name, value in found.items():
        accuracy = "acc" in name
        job.events.metric(
            variant, "accuracy" if accuracy else f"test_{name}", value, "share" if accuracy else "loss"
        )
    if count < len(x):
        job.events.metric(variant, "evaluated", count, "samples")


def _affordable(model: Any, x: Any) -> int:
    """Return how many samples a slow device may evaluate in EVALUATE_S; at least EVALUATE_LEAST."""
    model.predict_on_batch(x[:EVALUATE_LEAST])  # traces
    start = time.monotonic_ns()
    model.predict_on_batch(x[:EVALUATE_LEAST])
    a_sample_s = (time.monotonic_ns() - start) / 1e9 / EVALUATE_LEAST
    return max(EVALUATE_LEAST, min(len(x), round(EVALUATE_S / a_sample_s)))
