"""Variants that train with Keras fit: a script's call as it stands, and the ablations of the baseline's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import models, multi_worker
from workloads.driver.call import Call, Epoch, rows
from workloads.driver.interception import EVALUATE, FIT
from workloads.driver.job import Job
from workloads.driver.python_calls import Stopwatch
from workloads.driver.script import ScriptError
from workloads.driver.timing import Meter
from workloads.protocol import (
    BASELINE,
    BETWEEN_EPOCHS,
    CALLBACKS,
    PYTHON_IN_STEP,
    RUN_EAGERLY,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)
from workloads.protocol import EVALUATE as EVALUATING

# Training is stopped long before this many epochs.
ENDLESS = 1_000_000
# Time budget of an evaluation; a whole training evaluates all held-out data.
EVALUATE_S = 10.0
EVALUATE_MINIMUM = 100
# More steps per call are limited to calls of this length.
LONGEST_CALL_S = 1.5


class Boundaries(tf.keras.callbacks.Callback):
    """Report step boundaries of Keras fit to a meter.

    Has no on_train_batch_end, which would make Keras 3 read the loss back after every step on the thread that
    launches the steps.

    Args:
        epoch: the epoch of the input.
        stride: steps per call (steps_per_execution).
    """

    def __init__(self, meter: Meter, call: Call, *, epoch: Epoch, stride: int) -> None:
        super().__init__()
        self._meter = meter
        self._call = call
        self._times = call.steps_per_batch
        self._epoch = epoch
        self._stride = stride
        self._last = -1
        self._steps = 0
        self._began_ns = 0
        # Times of calls of one step or stride, inside epochs and across their ends.
        self._inside: list[int] = []
        self._across: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Report the steps since the last boundary."""
        if self._last >= 0:
            now = time.monotonic_ns()
            (self._inside if batch > self._last else self._across).append(now - self._began_ns)
            self._report(batch)
        self._began_ns = time.monotonic_ns()
        self._last = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Go on after callbacks such as EarlyStopping, until all is measured."""
        self.model.stop_training = not self._meter.going

    def on_train_end(self, logs: Any = None) -> None:
        """Report the last steps of the last epoch."""
        if self._last >= 0:
            self._report(0)
        self._last = -1

    @property
    def between_epochs_s(self) -> float | None:
        """Seconds that the end of an epoch adds to a step; None if no epoch ended."""
        # The first call traces, and the first epoch's end too.
        inside, across = self._inside[1:], self._across[1:] or self._across
        if not across or not inside:
            return None
        return max(0.0, median(across) - median(inside)) / 1e9

    def _report(self, batch: int) -> None:
        done = batch - self._last if batch > self._last else self._last_call_steps()
        samples = self._epoch.samples(self._steps + done) - self._epoch.samples(self._steps)
        first = not self._steps
        self._steps += done
        if not self._meter.tick(done * self._times, samples):
            self.model.stop_training = True
        elif first:
            self._call.keep_state()

    def _last_call_steps(self) -> int:
        """Return the steps in the last call of an epoch, which Keras (3.15) shortens only if data runs out."""
        if not self._epoch.ends:
            return self._stride
        if self._epoch.batches is None:
            return 0  # Keras detects the end of such an input by a call without a batch.
        return min(self._stride, self._epoch.batches - self._steps % self._epoch.batches)


def as_written(job: Job, call: Call) -> Any:
    """Measure a call of fit as the script makes it; return what fit returns."""
    meter = job.meter
    in_python, in_callbacks = Stopwatch(), Stopwatch()
    if job.spec.workers:
        multi_worker.fit(job, call)
        _report_training(job)
        multi_worker.report_collective(job, call.model)
        return tf.keras.callbacks.History()
    own = _callbacks(call)
    stride = int(call.model.steps_per_execution)
    epoch = _counted(call, stride, whole=meter.full)
    if not epoch.exact:
        job.events.warning(
            f"{job.variant}: the pipeline does not tell its batch size, assumed to be that of its first batch "
            f"({epoch.batch}). Use drop_remainder=True in batch()."
        )
    boundaries = Boundaries(meter, call, epoch=epoch, stride=stride)
    with in_python.python_functions():
        history = _fit(job, call, [*in_callbacks.callbacks(own), boundaries], epoch)
    if job.variant == BASELINE:
        _report_framework(job, call.model, in_python, in_callbacks)
    _report_epochs(job, boundaries, call)
    _report_training(job)
    return history


def _report_training(job: Job) -> None:
    meter = job.meter
    if meter.full:
        job.metric("training_s", meter.finish())
    job.metric("steps_trained", meter.steps)
    job.metric("samples_trained", meter.samples)
    if meter.last_loss is not None:
        job.metric("final_loss", meter.last_loss)


def _report_epochs(job: Job, boundaries: Boundaries, call: Call) -> None:
    seconds = boundaries.between_epochs_s
    if seconds is not None and call.steps_per_epoch:
        job.metric(BETWEEN_EPOCHS, seconds / call.steps_per_epoch)


def _callbacks(call: Call) -> list[Any]:
    given = call.arguments.get("callbacks") or ()
    return list(getattr(given, "callbacks", None) or tf.nest.flatten(given))


def _counted(call: Call, stride: int, *, whole: bool) -> Epoch:
    """Return the input's epoch; an input of unknown length is repeated where Keras could not count its steps."""
    epoch = call.epoch
    unknown = epoch.ends and epoch.batches is None and call.is_pipeline
    if unknown and (call.arguments.get("steps_per_epoch") or (stride > 1 and not whole)):
        call.arguments["x"] = call.arguments["x"].repeat()
        return Epoch(epoch.batch, None, 0, ends=False, exact=epoch.exact)
    return epoch


def _fit(
    job: Job, call: Call, callbacks: Sequence[Any], epoch: Epoch, changes: Mapping[str, Any] | None = None
) -> Any:
    """Train until the meter ends it, or the whole training if the meter is full."""
    meter, given = job.meter, {**call.arguments, **(changes or {})}
    first = int(given.get("initial_epoch") or 0)
    if not meter.full:
        given["epochs"] = first + ENDLESS
    elif not epoch.ends and not given.get("steps_per_epoch"):
        raise ScriptError("The pipeline of fit never ends. Give steps_per_epoch.")
    meter.loss = lambda: models.running_loss(call.model)
    meter.begin()
    history = FIT(call.model, **{**given, "callbacks": list(callbacks)})
    if not (meter.full or meter.written):
        raise ScriptError(
            f"Training ended after {meter.steps} steps, before it was measured: the input is too short. "
            "Repeat it, or use --profile smoke."
        )
    return history


def _report_framework(job: Job, model: Any, in_python: Stopwatch, in_callbacks: Stopwatch) -> None:
    """Write metrics of Python code in and around the baseline's steps."""
    eager = bool(getattr(model, "run_eagerly", False))
    job.shared.eager, job.shared.callbacks = eager, in_callbacks.wrapped
    job.metric(RUN_EAGERLY, float(eager))
    for name, stopwatch in ((PYTHON_IN_STEP, in_python), (CALLBACKS, in_callbacks)):
        if stopwatch.wrapped and not (eager and stopwatch is in_python):
            job.metric(name, stopwatch.total_ns / 1e9 / max(1, job.meter.steps))


def ablation(job: Job) -> None:
    """Train with the baseline's call without one part of its step."""
    call, model = job.call, job.call.model
    call.restore_state()
    settings = {name: getattr(model, name) for name in ("steps_per_execution", "run_eagerly")}
    changes: dict[str, Any] = {}
    epoch, callbacks = call.epoch, _callbacks(call)
    try:
        if job.variant == WITHOUT_LAUNCH:
            model.steps_per_execution = steps_per_call(job)
            epoch = _counted(call, model.steps_per_execution, whole=False)
            changes["x"] = call.arguments["x"]
        elif job.variant == WITHOUT_FRAMEWORK:
            model.run_eagerly, callbacks = False, []
        elif job.variant == WITHOUT_COPY:
            ahead = tf.data.experimental.prefetch_to_device(f"/{job.devices[0]}", 2)
            changes = _fed(call.dataset.apply(ahead))
        elif job.variant == WITHOUT_INPUT:
            # As many steps per epoch as the baseline, because the end of an epoch takes time too.
            changes = _fed(models.repeated(call.batch)) | {"steps_per_epoch": call.steps_per_epoch}
            epoch = Epoch(rows(call.batch), ends=False)
        model.train_function = None
        boundaries = Boundaries(job.meter, call, epoch=epoch, stride=int(model.steps_per_execution))
        _fit(job, call, [*callbacks, boundaries], epoch, changes)
        _report_epochs(job, boundaries, call)
    finally:
        for name, value in settings.items():
            setattr(model, name, value)
        model.train_function = None


def _fed(dataset: tf.data.Dataset) -> dict[str, Any]:
    """Return the arguments that feed fit with a pipeline that already has labels and weights."""
    nothing = dict.fromkeys(("y", "sample_weight", "class_weight", "batch_size"))
    return {"x": dataset, **nothing, "shuffle": False}


def steps_per_call(job: Job) -> int:
    """Return the steps per call of `without:launch`, limited by LONGEST_CALL_S."""
    wanted, step_ns = (50 if job.gpu else 10), job.shared.step_ns.get(BASELINE)
    return max(1, min(wanted, int(LONGEST_CALL_S * 1e9 / step_ns))) if step_ns else wanted


class _Budget(tf.keras.callbacks.Callback):
    """End an evaluation after EVALUATE_S; keeps the model's metrics."""

    def __init__(self) -> None:
        super().__init__()
        self._until = time.monotonic() + EVALUATE_S

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Stop when the time is over."""
        if time.monotonic() > self._until:
            raise _OverError


class _OverError(Exception):
    """The time of an evaluation is over."""


def evaluate(job: Job, model: Any, arguments: Mapping[str, Any]) -> None:
    """Measure accuracy with the arguments of the script's own evaluate."""
    began = job.meter.clock()
    given = {**arguments, "verbose": 0, "return_dict": True, "steps": arguments.get("steps")}
    whole = job.meter.full
    if not whole:
        given |= _subset(given)
    budget = [] if whole else [_Budget()]
    jit = model.jit_compile
    # With XLA each shape would compile for seconds and be used once.
    model.jit_compile, model.test_function = False, None
    try:
        results = EVALUATE(model, **{**given, "callbacks": budget})
    except _OverError:
        results = model.get_metrics_result()
    finally:
        model.jit_compile, model.test_function = jit, None
    job.meter.phase(EVALUATING, began)
    # Keras sorts by name, so that "accuracy" precedes a top-k accuracy.
    accuracy = next((float(value) for name, value in results.items() if "acc" in name), None)
    if accuracy is not None:
        job.metric("accuracy", accuracy)


def _subset(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return at most 2,000 samples spread over arrays, which may be sorted by class; {} for other inputs."""
    x = given["x"]
    if not all(isinstance(part, np.ndarray) for part in tf.nest.flatten(x)):
        return {}
    count = rows(x)
    chosen = np.linspace(0, count - 1, min(count, 2000)).astype(np.int64)
    names = [name for name in ("x", "y", "sample_weight") if given.get(name) is not None]
    return {name: tf.nest.map_structure(lambda part: np.asarray(part)[chosen], given[name]) for name in names}
