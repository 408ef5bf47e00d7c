"""Variants that train the whole model: the baseline and its changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import building, multi_worker, pipeline, resident, workload_file
from workloads.driver.job import Job
from workloads.driver.python_calls import Stopwatch
from workloads.driver.timing import Meter
from workloads.protocol import BASELINE, BUILD, CALLBACKS, EVALUATE, PYTHON_IN_STEP, RUN_EAGERLY, TUNED

# A callback stops fit long before this many epochs.
ENDLESS = 1_000_000
EVALUATE_BATCH = 1000
# Time budget and minimum samples of an evaluation; a whole training evaluates all held-out data.
EVALUATE_S = 10.0
EVALUATE_MINIMUM = 100


class Boundaries(tf.keras.callbacks.Callback):
    """Report step boundaries of Keras fit to a meter.

    Has no on_train_batch_end, which would make Keras 3 read the loss back after every step on the thread that
    launches the steps.

    Args:
        epoch: the epoch of the input.
        stride: steps per call (steps_per_execution).
    """

    def __init__(self, meter: Meter, *, epoch: pipeline.Epoch, stride: int) -> None:
        super().__init__()
        self._meter = meter
        self._epoch = epoch
        self._stride = stride
        self._last = -1
        self._steps = 0

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
        done = batch - self._last if batch > self._last else self._last_call_steps()
        samples = self._epoch.samples(self._steps + done) - self._epoch.samples(self._steps)
        self._steps += done
        if not self._meter.tick(done, samples):
            self.model.stop_training = True

    def _last_call_steps(self) -> int:
        """Return the steps in the last call of an epoch, which Keras (3.15) shortens only if data runs out."""
        if not self._epoch.ends:
            return self._stride
        if self._epoch.batches is None:
            return 0  # Keras detects the end of such an input by a call without a batch.
        return min(self._stride, self._epoch.batches - self._steps % self._epoch.batches)


def train(job: Job) -> None:
    """Run the baseline or a changed baseline: build, train until the meter stops it, evaluate."""
    meter = job.meter
    in_python, in_callbacks = Stopwatch(), Stopwatch()
    fed_by_fit = job.params["feed"] != "resident"
    model = _fit(job, in_python, in_callbacks) if fed_by_fit else resident.train(job)
    if job.variant == BASELINE:
        _report_framework(job, model, in_python, in_callbacks)
    if meter.full:
        job.metric("training_s", meter.finish())
    job.metric("steps_trained", meter.steps)
    if meter.last_loss is not None:
        job.metric("final_loss", meter.last_loss)
    # Keras' evaluate fails with several workers, like fit; see multi_worker.py.
    if job.variant in (BASELINE, TUNED) and job.spec.evaluate and not job.spec.workers:
        _evaluate(job, model)


def _fit(job: Job, in_python: Stopwatch, in_callbacks: Stopwatch) -> Any:
    """Train with Keras fit, or with a custom loop for several workers; return the model."""
    params, meter = job.params, job.meter
    began = meter.clock()
    with in_python.python_functions():
        model = building.build(job.loaded.model, params, strategy=job.strategy, seed=job.spec.seed)
    meter.phase(BUILD, began)
    if job.spec.workers:
        multi_worker.fit(job, model)
        return model
    own = job.loaded.callbacks(params) if job.loaded.callbacks and params["callbacks"] else ()
    meter.loss = lambda: building.running_loss(model)
    fed, epoch = _input(job)
    boundaries = Boundaries(meter, epoch=epoch, stride=params["steps_per_execution"])
    epochs = params["epochs"] if meter.full else ENDLESS
    callbacks = [*in_callbacks.callbacks(own), boundaries]
    meter.begin()
    with in_python.python_functions():
        model.fit(**fed, epochs=epochs, verbose=2, callbacks=callbacks)
    if not (meter.full or meter.written):
        raise workload_file.WorkloadFileError(
            f"Training ended after {meter.steps} steps, before it was measured. "
            "Leave out callbacks that end it, such as EarlyStopping."
        )
    return model


def _report_framework(job: Job, model: Any, in_python: Stopwatch, in_callbacks: Stopwatch) -> None:
    """Write metrics of Python code in and around the baseline's steps."""
    eager = bool(getattr(model, "run_eagerly", False))
    job.shared.eager, job.shared.callbacks = eager, in_callbacks.wrapped
    job.metric(RUN_EAGERLY, float(eager))
    for name, stopwatch in ((PYTHON_IN_STEP, in_python), (CALLBACKS, in_callbacks)):
        if stopwatch.wrapped and not (eager and stopwatch is in_python):
            job.metric(name, stopwatch.total_ns / 1e9 / max(1, job.meter.steps))


def _input(job: Job) -> tuple[Mapping[str, Any], pipeline.Epoch]:
    """Return the arguments that feed Keras fit, and their epoch."""
    batch = job.params["batch_size"] * job.replicas
    memory = job.params["feed"] == "memory"
    if job.train is not None and not memory:
        x, y = job.train
        return {"x": x, "y": y, "batch_size": batch}, pipeline.epoch_of(len(x), batch)
    source = pipeline.baseline(job)
    epoch = pipeline.input_epoch(job, source)
    steps_per_epoch = job.workload.samples_per_epoch // batch or None
    several = job.params["steps_per_execution"] > 1
    if memory:
        # As many steps per epoch as the baseline, if known, because the end of an epoch takes time too.
        steps_per_epoch = steps_per_epoch or (epoch.batches if epoch.ends else None)
        source, epoch = pipeline.from_memory(source)
    elif job.meter.full and not steps_per_epoch and not epoch.ends:
        raise workload_file.WorkloadFileError(
            f"{job.workload.name} has an endless pipeline. Declare samples_per_epoch, at least one batch of {batch}."
        )
    elif epoch.ends and epoch.batches is None and (steps_per_epoch or (several and not job.meter.full)):
        # Keras does not tell how many steps a call did before such an input ended.
        source, epoch = source.repeat(), replace(epoch, ends=False)
    if not epoch.exact:
        job.events.warning(
            f"{job.variant}: the batch size of the pipeline is unknown and assumed to be {batch}. "
            "Name the stage that batches `batch`, or use drop_remainder=True."
        )
    ahead = job.params["prefetch_to_device"] and job.gpu and job.strategy is None
    if ahead and not pipeline.is_loader(source):
        source = source.apply(tf.data.experimental.prefetch_to_device(f"/{job.devices[0]}", 2))
    # Loaders and pipelines do their own shuffling.
    return {"x": source, "steps_per_epoch": steps_per_epoch, "shuffle": False}, epoch


def _evaluate(job: Job, model: Any) -> None:
    began = job.meter.clock()
    held_out = job.part("test")
    if held_out is None:
        return
    x, y = held_out
    # With XLA each shape would compile for seconds and be used once.
    model.jit_compile = False
    count = len(x) if job.meter.full else _affordable(model, x)
    # Spread over the whole split, which may be sorted by class.
    chosen = np.linspace(0, len(x) - 1, count).astype(np.int64) if count < len(x) else slice(None)
    results = model.evaluate(x[chosen], y[chosen], batch_size=EVALUATE_BATCH, verbose=0, return_dict=True)
    job.meter.phase(EVALUATE, began)
    # Keras sorts by name, so that "accuracy" precedes a top-k accuracy.
    accuracy = next((value for name, value in results.items() if "acc" in name), None)
    if accuracy is not None:
        job.metric("accuracy", accuracy)


def _affordable(model: Any, x: Any) -> int:
    """Return the number of samples to evaluate within EVALUATE_S, at least EVALUATE_MINIMUM."""
    model.predict_on_batch(x[:EVALUATE_MINIMUM])  # traces
    start = time.monotonic_ns()
    model.predict_on_batch(x[:EVALUATE_MINIMUM])
    sample_s = (time.monotonic_ns() - start) / 1e9 / EVALUATE_MINIMUM
    return max(EVALUATE_MINIMUM, min(len(x), round(EVALUATE_S / sample_s)))
