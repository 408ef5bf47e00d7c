"""Variants that run a script's call in Keras: as it stands, and the ablations of the baseline's."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import fmean, median_low
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import variants
from workloads.driver import keras_model
from workloads.driver.call import Call, Epoch, rows, runs_eagerly
from workloads.driver.counting import Counted
from workloads.driver.epoch_ends import (
    SHORT_EPOCHS,
    EpochEnds,
    around_end_of,
    counted_steps,
    end_s,
    validated_every,
)
from workloads.driver.first_epoch import fill_caches, keeps, read_epoch
from workloads.driver.interception import EVALUATE, FIT, PREDICT
from workloads.driver.job import Job
from workloads.driver.keras_model import loops_of_kernels
from workloads.driver.losses import Losses
from workloads.driver.own_code.callbacks import is_own_function
from workloads.driver.python_calls import Stopwatch, repeat_epochs
from workloads.driver.remedies import LONGEST_CALL_S
from workloads.driver.script import ScriptError, named
from workloads.driver.timing import COMPILED_SIZES, LONGEST_COMPILING_NS, LONGEST_WAIT_NS, Meter, UsualStep
from workloads.protocol import (
    ACCURACY,
    BETWEEN_EPOCHS,
    CALLBACKS,
    COMPUTE_BITS,
    DATA,
    EPOCH_CALLBACK_PREFIX,
    FILLS_CACHES,
    PYTHON_IN_STEP,
    RARE_CALLBACKS,
    RARE_ENDS,
    RECURRENT_PREFIX,
    SAMPLES_TRAINED,
    STEPS_PER_CALL,
    VARIABLE_PREFIX,
)
from workloads.protocol import EVALUATE as EVALUATING
from workloads.variants import (
    BASELINE,
    FIX,
    WITHOUT_EPOCHS,
    WITHOUT_LAUNCH,
    measures_speed,
)

# Training is stopped long before this many epochs.
ENDLESS = 1_000_000
# Time budget of an evaluation; a whole training evaluates all held-out data.
EVALUATE_S = 10.0
# A first epoch that takes this much longer is said.
_SLOW_FIRST_EPOCH_S = 1.0
# With more sizes of a batch, compiling for them is part of the speed.
_MOST_SIZES = 8
_ENDED = (
    "The input has ended, and measuring goes on longer and reads it several times: let it never end, or let it begin "
    "anew each time, as a function does that makes a new generator."
)
# Caches that take longer to fill are left to the first epoch.
_LONGEST_FILL_S = {"smoke": 5.0, "others": 40.0}
# Epochs that are validated whatever validation_freq says.
_TRIED_VALIDATIONS = 2
# Callbacks of an epoch that take so many times as long as in most are rare ones.
_RARE = 5


class Boundaries(tf.keras.callbacks.Callback):
    """Report step boundaries of Keras fit to a meter.

    Has no on_train_batch_end, which would make Keras 3 read the loss back after every step on the thread that
    launches the steps.

    Args:
        ends: measures the ends of epochs, which are left out of windows: some windows have one, others none.
        epoch: the epoch of the input.
        stride: steps per call (steps_per_execution).
        early: after so many samples the weights are kept for measuring accuracy; 0 for never.
        losses: takes those of the first steps and epochs.
        counted: counts the samples, where batches have no known size.
        own_ns: returns how long the script's callbacks around epochs have taken so far.

    Attributes:
        epochs_ended: epochs that ended; validated: those with a validation.
    """

    def __init__(
        self,
        meter: Meter,
        call: Call,
        ends: EpochEnds,
        *,
        epoch: Epoch,
        stride: int,
        early: int = 0,
        losses: Losses | None = None,
        counted: Counted | None = None,
        own_ns: Callable[[], int] | None = None,
    ) -> None:
        super().__init__()
        self._ends = ends
        self._meter = meter
        self._call = call
        self._times = call.steps_per_batch
        self._epoch = epoch
        self._stride = stride
        self._early = early
        self._losses = losses
        self._counted = counted
        self._last = -1
        self._steps = self._steps_before = 0  # the latter: of the epochs that ended
        self._begun_ns = 0
        self.epochs_ended = 0
        self.validated = 0
        self._validations_ns: list[int] = []
        self._starts_epoch = True
        # Of steps inside an epoch.
        self._usual = UsualStep(COMPILED_SIZES)
        self._sizes: set[int] = set()
        self._new_size_at = 0  # steps
        self._epoch_loss: float | None = None
        self._trained = self._trained_before = keras_model.iterations(call.model)
        self._first_steps = 0  # of the first epoch
        self._short_epochs = 0  # one after another
        self._pauses_ns: list[int] = []
        self._own_ns = own_ns or int
        self._owns_ns: list[int] = []  # what it returned at the end of each epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Report the steps since the last boundary."""
        now = time.monotonic_ns()
        if self._last >= 0:
            ended = batch <= self._last
            if ended:
                self._end_epoch(now)
            elif self._starts_epoch:
                # A new iterator fills its buffers in the first step.
                self._pause(self._usual.beyond_ns(now - self._begun_ns), recurs=self.epochs_ended > 1)
            else:
                self._usual.note(now - self._begun_ns)
            self._starts_epoch = ended
            self._report(batch)
        # The report may have waited for the device, at the end of a window; that is no part of the next step.
        self._begun_ns, self._last = time.monotonic_ns(), batch

    def _end_epoch(self, now: int) -> None:
        self.epochs_ended += 1
        length = now - self._ends.ended_ns
        validation_ns = self._ends.validation_ns
        self._owns_ns.append(self._own_ns())
        self.validated += bool(validation_ns)
        if self.epochs_ended == 1:
            # Once only: Keras traces, and compiles for a last batch that is short, or a last call of fewer steps.
            compiles = not self._epoch.exact or self._epoch.missing or self._stride > 1
            last_ns = self._usual.beyond_ns(self._ends.ended_ns - self._begun_ns)
            self._meter.pause(length + (last_ns if compiles else 0))
        else:
            self._pauses_ns.append(0)
            # The first validation is traced.
            if self.validated > 1 and validation_ns:
                self._validations_ns.append(validation_ns)
            self._pause(length - validation_ns, recurs=True)
            self._meter.pause(validation_ns)

    def _pause(self, length_ns: int, *, recurs: bool) -> None:
        self._meter.pause(length_ns)
        if recurs and self._pauses_ns:
            self._pauses_ns[-1] += length_ns

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Go on after callbacks such as EarlyStopping, until all is measured."""
        stops, self.model.stop_training = self.model.stop_training, not self._meter.going
        loss = (logs or {}).get("loss")
        self._epoch_loss = loss if isinstance(loss, float) else None
        if stops:
            self._meter.stopped()
        # Keras goes on without an input that has ended, in epochs of a step or none. Where one begins anew, the epoch
        # before is short.
        trained = keras_model.iterations(self.model)
        steps, self._trained = trained - self._trained, trained
        self._first_steps = self._first_steps or steps
        self._short_epochs = self._short_epochs + 1 if 2 * steps < self._first_steps else 0
        if self._losses and not self._meter.written:
            self._losses.epoch(self.epochs_ended, logs or {})

    def on_train_end(self, logs: Any = None) -> None:
        """Report the last steps of the last epoch."""
        if self._last >= 0:
            self._report(0)
        self._last = -1

    def loss(self) -> float | None:
        """Return the mean loss of the epoch that runs, or of the last one if it has just begun; None if unknown."""
        running = keras_model.running_loss(self.model)
        return self._epoch_loss if running is None else running

    @property
    def compiles(self) -> bool:
        """Whether more sizes of a batch may come soon, for which the step is compiled.

        False if they keep coming, or if batches have a known size, but for the last of an epoch.
        """
        count = len(self._sizes)
        soon = 1 < count <= _MOST_SIZES and self._steps < self._new_size_at + count
        return self._counted is not None and soon

    @property
    def steps_trained(self) -> int:
        """Steps that the model has trained since the call began; those that were seen if it does not count them."""
        return max(self._steps, keras_model.iterations(self.model) - self._trained_before)

    @property
    def epochs_begun(self) -> int:
        """Epochs that have begun."""
        return self._ends.begun

    @property
    def between_epochs_s(self) -> float | None:
        """Mean seconds of an end of an epoch, as some take much longer than most; None if none came again."""
        if not self._pauses_ns:
            return None
        validation_ns = fmean(self._validations_ns) if self._validations_ns else 0.0
        return (fmean(self._pauses_ns) + validation_ns / validated_every(self._call)) / 1e9

    @property
    def rare_s(self) -> float:
        """Seconds per epoch of callbacks that take much longer in few epochs, as one that saves every ten does."""
        lengths_ns = [after - before for before, after in pairwise(self._owns_ns)] or [0]
        longest_ns = _RARE * median_low(lengths_ns)
        return sum(each for each in lengths_ns if each > longest_ns) / 1e9 / len(lengths_ns)

    @property
    def steps_per_epoch(self) -> float | None:
        """Steps of an epoch as the call says, else the mean of the epochs that ended; None if none has."""
        mean = self._steps_before / self.epochs_ended if self.epochs_ended else None
        return self._call.steps_per_epoch or mean

    def _report(self, batch: int) -> None:
        done = batch - self._last if batch > self._last else self._last_call_steps()
        samples_of = self._counted.samples if self._counted else self._epoch.samples
        samples = samples_of(self._steps + done) - samples_of(self._steps)
        if done and self._counted and not self._counted.mean:  # Keras goes on with steps without a batch
            raise ScriptError(_ENDED)
        first = not self._steps
        self._steps += done
        if samples not in self._sizes:
            self._sizes.add(samples)
            self._new_size_at = self._steps
            compiled_ns = self._usual.compiled_ns(time.monotonic_ns() - self._begun_ns)
            # At the end of an epoch, `_end_epoch` has left it out.
            self._meter.pause(compiled_ns if batch > self._last else 0)
        if batch <= self._last:
            if self._steps == self._steps_before or self._short_epochs > 1:
                raise ScriptError(_ENDED)
            self._steps_before = self._steps
        if not self._meter.tick(done * self._times, samples):
            self.model.stop_training = self.model.stop_evaluating = self.model.stop_predicting = True
            if not self._meter.going:
                # Keras would validate once more, which can take longer than everything measured.
                self.model.__dict__["_should_eval"] = lambda *unused: False
        elif first and self._call.is_broken_down:
            self._call.keep_state()
        if self._losses and batch and not self._meter.warm:
            self._losses.step(self.epochs_ended, batch)
        if 0 < self._early <= self._meter.samples and not self._call.early_samples:
            began = time.monotonic_ns()
            self._call.keep_early_weights(self._meter.samples)
            self._meter.pause(time.monotonic_ns() - began)

    def _last_call_steps(self) -> int:
        """Return the steps in the last call of an epoch, which Keras (3.15) shortens only if data runs out."""
        if not self._epoch.ends:
            return self._stride
        if self._epoch.batches is None:
            return 0  # Keras detects the end of such an input by a call without a batch.
        return min(self._stride, self._epoch.batches - self._steps % self._epoch.batches)


class Passes(Boundaries):
    """Report step boundaries of Keras evaluate or predict, which is called again and again."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin a pass over the input."""
        self._ends.on_epoch_begin(0)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Report the steps since the last boundary."""
        self.on_train_batch_begin(batch)

    def on_test_end(self, logs: Any = None) -> None:
        """End a pass."""
        self._ends.on_epoch_end(0)

    on_predict_begin, on_predict_batch_begin, on_predict_end = on_test_begin, on_test_batch_begin, on_test_end


def as_written(job: Job, call: Call) -> Any:
    """Measure a call as the script makes it; return what Keras returns."""
    meter = job.meter
    in_python, in_callbacks = Stopwatch(), Stopwatch()
    own = call.callbacks
    around_epochs: defaultdict[str, Stopwatch] = defaultdict(Stopwatch)
    for callback in own:
        around_epochs[type(callback).__name__].epochs_of(callback)
    stride = int(call.model.steps_per_execution)
    epoch = _counted(call, stride, whole=meter.full)
    if call.trains and not meter.full:
        _begin_second_epoch(job, call)
    with in_python.python_functions(), _loader_ends(call, around_epochs):
        result, boundaries = _run(
            job, call, in_callbacks.callbacks(own), epoch,
            own_ns=lambda: sum(each.total_ns for each in around_epochs.values()),
        )  # fmt: skip
    if job.variant == BASELINE:
        _report_framework(job, call.model, in_python, in_callbacks)
    if job.variant == BASELINE or FIX.has(job.variant):
        _report_variables(job, call.model)
    if job.meter.full:
        job.metric("training_s", job.meter.finish())
    if job.results.metric(job.variant, SAMPLES_TRAINED) is None:  # accuracy is that of the first reading
        job.metric(SAMPLES_TRAINED, call.early_samples or job.meter.samples)
    steps, epochs = boundaries.steps_per_epoch, boundaries.epochs_ended
    if boundaries.between_epochs_s is None:
        timed = call.trains and job.spec.evaluate and measures_speed(job.variant)
        with _loader_ends(call, around_epochs):
            steps, epochs = _time_short_epochs(job, call, own, stride, steps) if timed else None, SHORT_EPOCHS
    if job.variant == BASELINE and steps:
        for name, stopwatch in around_epochs.items():
            if stopwatch.total_ns:
                seconds = stopwatch.recurring_ns(epochs) / 1e9
                job.metric(f"{EPOCH_CALLBACK_PREFIX}{name}", seconds / (steps * call.steps_per_batch))
    return result


@contextmanager
def _loader_ends(call: Call, around_epochs: Mapping[str, Stopwatch]) -> Iterator[None]:
    """Time what a loader of the script does at the end of an epoch, inside the block."""
    given = call.arguments["x"]
    if not (call.is_loader and is_own_function(type(given).on_epoch_end)):
        yield
        return
    stopwatch = around_epochs[f"{type(given).__name__}.on_epoch_end"]
    with around_end_of(given, stopwatch.timed):
        yield


def _begin_second_epoch(job: Job, call: Call) -> None:
    """Fill the caches of the call's input, so that later epochs are measured; a training has one first epoch."""
    began = job.meter.clock()
    longest_s = _LONGEST_FILL_S["smoke" if job.spec.steps else "others"]
    # Asked in each variant, because what shuffles goes on with each reading.
    kept = call.epochs > 1 and keeps(call)
    took_s = fill_caches(call.arguments["x"], longest_s) if call.is_pipeline else 0.0
    if took_s == 0.0:
        if kept:
            took_s = read_epoch(call, longest_s)
            job.meter.phase(DATA, began)
            _tell_of_first_epoch(job, took_s if took_s < longest_s else None, longest_s)
        return
    job.meter.phase(DATA, began)
    if job.variant != BASELINE:
        call.fill_s = 0.0 if job.results.has(BASELINE, FILLS_CACHES) else took_s or 0.0
        return
    job.metric(FILLS_CACHES, 1.0)
    _tell_of_first_epoch(job, took_s, longest_s)


def _tell_of_first_epoch(job: Job, took_s: float | None, longest_s: float) -> None:
    """Warn once of a first epoch that is slower than others, or was measured because it takes too long (None)."""
    if job.variant != BASELINE or job.results.begun_count(BASELINE) > 1:
        return
    if took_s is None:
        job.events.warning(
            f"Filling the input's cache takes longer than {longest_s:.0f} s, so the first epoch was measured. "
            "Later epochs read the cache."
        )
    elif took_s >= _SLOW_FIRST_EPOCH_S:
        job.events.warning(
            f"The first epoch takes about {took_s:.0f} s longer than later ones: it fills the cache. Speeds are those "
            "of later epochs."
        )


def _time_short_epochs(
    job: Job, call: Call, own: Sequence[Any], stride: int, steps: float | None
) -> float | None:
    """Report the ends of epochs from short ones; return the steps of the call's epochs, if the ends matter.

    Args:
        steps: of the call's epochs; None if unknown.
    """
    with _all_measured(job.meter):
        seconds = end_s(job, call, own, stride)
        if (seconds or call.fill_s) and (counted := steps or counted_steps(job, call, seconds)):
            _report_between(job, call, counted, seconds)
            return counted
    return None


def _counted(call: Call, stride: int, *, whole: bool) -> Epoch:
    """Return the input's epoch; a pipeline of unknown length is repeated where Keras could not count its steps."""
    epoch = call.epoch
    unknown = epoch.ends and epoch.batches is None
    if unknown and (call.steps_per_epoch or (call.is_pipeline and stride > 1 and not whole)):
        if call.is_pipeline:
            call.arguments["x"] = call.arguments["x"].repeat()
        return Epoch(epoch.batch, None, 0, ends=False, exact=epoch.exact)
    return epoch


def _run(
    job: Job,
    call: Call,
    callbacks: Sequence[Any],
    epoch: Epoch,
    changes: Mapping[str, Any] | None = None,
    own_ns: Callable[[], int] | None = None,
) -> tuple[Any, Boundaries]:
    """Run the call until the meter ends it, or once if the meter is full; report ends of epochs.

    Args:
        own_ns: returns how long the script's callbacks around epochs have taken so far.

    Returns:
        What Keras returns, and what saw the epochs.
    """
    given = {**call.arguments, **(changes or {})}
    if epoch.known or len(job.devices) > 1:
        return _run_with(job, call, callbacks, epoch, given, None, own_ns)
    counted = Counted()
    with counted.of(given["x"]) as x:
        found = _run_with(job, call, callbacks, epoch, given | {"x": x}, counted, own_ns)
    if not epoch.exact and counted.uneven(epoch.batch) and measures_speed(job.variant):
        job.events.warning(
            "Batches of the input differ in size. Speeds are of the samples that were read; the parts of a step are "
            f"those of a batch of {epoch.batch}."
        )
    return found


def _run_with(
    job: Job,
    call: Call,
    callbacks: Sequence[Any],
    epoch: Epoch,
    given: dict[str, Any],
    counted: Counted | None,
    own_ns: Callable[[], int] | None,
) -> tuple[Any, Boundaries]:
    meter = job.meter
    if meter.full and not epoch.ends and not call.steps_per_epoch:
        wanted = "steps_per_epoch" if call.trains else "steps"
        raise ScriptError(f"The pipeline of the call never ends. Give {wanted}.")
    if call.trains and not meter.full:
        batches = call.epochs * -(-(call.steps_per_epoch or ENDLESS) // int(call.model.steps_per_execution))
        warn = job.events.warning
        repeat_epochs(callbacks, call.first_epoch, call.epochs, batches, call.model, warn, meter.stopped)
        given["epochs"] = call.first_epoch + ENDLESS
    ends = EpochEnds(meter.synchronise)
    observer = Boundaries if call.trains else Passes
    # A whole training is compared with a whole one.
    early = 0
    if not meter.full and measures_speed(job.variant) and job.variant != BASELINE:
        early = int(job.results.metric(BASELINE, SAMPLES_TRAINED) or 0)
    # The baseline's are for the remedies that are planned.
    noted = job.variant == BASELINE and bool(job.spec.fixes)
    losses = None
    if call.trains and (noted or job.alike_by):
        before = () if noted else job.results.losses
        losses = Losses(call, before, gpu=job.gpu, by=job.alike_by)
    boundaries = observer(
        meter, call, ends, epoch=epoch, stride=int(call.model.steps_per_execution), early=early,
        losses=losses, counted=counted, own_ns=own_ns,
    )  # fmt: skip
    meter.loss = boundaries.loss
    _wait_for(job, call, boundaries, losses, early)
    meter.begin()
    try:
        if call.trains:
            with _all_measured(meter), _counting_steps(call, boundaries), ends.of(given["x"]):
                FIT(call.model, **{**given, "callbacks": [ends, *callbacks, boundaries]})
            result = call.model.history
        else:
            given["callbacks"] = [*callbacks, boundaries]
            result = _repeat(partial(EVALUATE if call.evaluates else PREDICT, call.model, **given), meter)
            boundaries.on_train_end()
    finally:
        call.model.__dict__.pop("_should_eval", None)
    if not (meter.full or meter.written):
        smoke = "" if job.spec.steps else ", or use --profile smoke"
        raise ScriptError(
            f"The call ended after {meter.steps} steps, before it was measured: the input is too short. "
            f"Repeat it{smoke}."
        )
    if losses and noted:
        job.events.write("losses", variant=job.variant, values=losses.values)
    seconds = boundaries.between_epochs_s
    if (seconds is not None or call.fill_s) and (steps := boundaries.steps_per_epoch):
        more_s = _rare_s(job, boundaries.rare_s) if own_ns else 0.0
        _report_between(job, call, steps, max(0.0, (seconds or 0.0) + more_s))
    return result, boundaries


def _rare_s(job: Job, rare_s: float) -> float:
    """Return by how much more of the long ends of epochs the baseline's first reading has, in seconds per epoch.

    A short reading has one more of those that a callback makes every so many epochs, or one less, which is no gain.
    """
    known = job.results.metric(BASELINE, RARE_ENDS)
    if known is None and job.variant == BASELINE:
        job.metric(RARE_ENDS, known := rare_s)
    return 0.0 if known is None or job.meter.full else known - rare_s


def _report_between(job: Job, call: Call, steps: float, seconds: float) -> None:
    """Report the end of an epoch of so many steps, with its part of what fills a cache in the first epoch."""
    seconds += call.fill_s / call.epochs
    job.metric(BETWEEN_EPOCHS, seconds / (steps * call.steps_per_batch))


def _wait_for(job: Job, call: Call, boundaries: Boundaries, losses: Losses | None, early: int) -> None:
    """Have the warm-up last until what it shows was seen: losses, ends of epochs, rare validations, `early` samples."""
    meter = job.meter
    if meter.full:
        return
    # Those with the baseline's losses validate as it does, which may draw from what shuffles the training too.
    rare = validated_every(call) > 1 and (losses is not None or measures_speed(job.variant))
    if rare:
        # The first validation traces, and the second tells what one takes: rare ones might fall into no window.
        call.model.__dict__["_should_eval"] = lambda *given: (
            boundaries.validated < _TRIED_VALIDATIONS or type(call.model)._should_eval(call.model, *given)
        )
    # Once losses were unlike those of the only reading, the next tells by how much they differ anyway.
    doubted = job.variant == BASELINE and bool(job.results.unlike) and len(job.results.losses) == 1
    reads = losses is not None and (doubted or not job.results.read(job.variant))
    # The baseline's end of an epoch, which has callbacks, cannot stand for its own.
    ends = job.variant == variants.WITHOUT_FRAMEWORK and bool(job.results.metric(BASELINE, BETWEEN_EPOCHS))

    def longest_ns() -> int:
        if boundaries.compiles:
            return LONGEST_COMPILING_NS
        wanted = (
            (ends and boundaries.between_epochs_s is None)
            or (reads and losses and losses.wanted)
            or (rare and boundaries.validated < _TRIED_VALIDATIONS)
            or (not reads and meter.samples < early)
        )
        return LONGEST_WAIT_NS if wanted else 0

    meter.waits = longest_ns


@contextmanager
def _all_measured(meter: Meter) -> Iterator[None]:
    """Let errors pass once all is measured: a callback may miss the rest of a training that was stopped."""
    try:
        yield
    except BaseException as error:
        if meter.going or not meter.written:
            raise
        sys.stderr.write(f"After the measured steps: {named(error)}\n")


@contextmanager
def _counting_steps(call: Call, boundaries: Boundaries) -> Iterator[None]:
    """Note whether an error came after as many steps as the script trains."""
    try:
        yield
    except BaseException:
        planned = call.epochs * (boundaries.steps_per_epoch or ENDLESS)
        trained = boundaries.steps_trained
        call.failed_late = trained > 1
        # The call that failed may have been the last one. At the end of the last epoch the script fails by itself.
        last = trained < planned <= trained + int(call.model.steps_per_execution)
        if trained and (last or (trained >= planned and boundaries.epochs_begun > call.epochs)):
            call.steps_before_error = f"{trained} steps, where the script trains {planned:.0f}"
        raise


def _repeat(run: Callable[[], Any], meter: Meter) -> Any:
    """Run until the meter ends it, or once if the meter is full."""
    seen, result = -1, None
    while True:
        steps = meter.steps
        try:
            result = run()
        except ValueError:
            if not steps:
                raise
            return result  # a generator has no second pass
        # The steps of one call are seen at the next.
        if meter.full or not meter.going or steps == meter.steps == seen:
            return result
        seen = steps


def _report_framework(job: Job, model: Any, in_python: Stopwatch, in_callbacks: Stopwatch) -> None:
    """Write metrics of Python code in and around the baseline's steps."""
    measured: dict[str, float] = {}
    if in_python.wrapped and not runs_eagerly(model):
        measured[PYTHON_IN_STEP] = in_python.total_ns
    if in_callbacks.wrapped:
        measured |= {CALLBACKS: in_callbacks.total_ns, RARE_CALLBACKS: in_callbacks.rare_ns}
    for name, total_ns in measured.items():
        job.metric(name, total_ns / 1e9 / max(1, job.meter.steps))


def _report_variables(job: Job, model: Any) -> None:
    """Write the width of the numbers in which most weights are used, and the largest trained variable."""
    weights: dict[int, int] = {}
    for layer in model._flatten_layers():
        bits = 8 * tf.as_dtype(layer.compute_dtype).size
        weights[bits] = weights.get(bits, 0) + sum(
            math.prod(each.shape) for each in layer._trainable_variables
        )
    if not any(weights.values()):
        return
    job.metric(COMPUTE_BITS, max(weights, key=lambda bits: weights[bits]))
    # None is trained if the model was frozen after it was compiled.
    largest = max(model.trainable_variables, key=lambda each: math.prod(each.shape), default=None)
    if largest is not None:
        job.metric(f"{VARIABLE_PREFIX}{largest.path}", math.prod(largest.shape))
    if job.gpu:
        for path, why in loops_of_kernels(model):
            job.metric(f"{RECURRENT_PREFIX}{path}: {why}", 1.0)


def ablation(job: Job) -> None:
    """Train with the baseline's call without one part of its step."""
    call, model = job.call, job.call.model
    call.restore_state()
    settings = {name: getattr(model, name) for name in ("steps_per_execution", "run_eagerly")}
    changes: dict[str, Any] = {}
    callbacks = call.callbacks
    try:
        if job.variant == WITHOUT_LAUNCH:
            model.steps_per_execution = steps_per_call(job)
        epoch = _counted(call, int(model.steps_per_execution), whole=False)
        match job.variant:
            case variants.WITHOUT_LAUNCH:
                pass
            case variants.WITHOUT_FRAMEWORK:
                model.run_eagerly, callbacks = False, []
                tf.config.run_functions_eagerly(False)  # until the caller sets it again
            case variants.WITHOUT_EPOCHS:
                changes = _fed(call, call.dataset.repeat()) | {"steps_per_epoch": ENDLESS}
                epoch = replace(epoch, ends=False)
            case variants.WITHOUT_COPY:
                ahead = tf.data.experimental.prefetch_to_device(f"/{job.devices[0]}", 2)
                changes = _fed(call, call.dataset.apply(ahead))
            case variants.WITHOUT_INPUT:
                # As many steps per epoch as the baseline, because the end of an epoch takes time too.
                steps = "steps_per_epoch" if call.trains else "steps"
                changes = _fed(call, keras_model.repeated(call.batch)) | {steps: call.steps_per_epoch}
                epoch = Epoch(rows(call.batch), ends=False)
            case unknown:
                raise ValueError(f"{unknown} is no ablation")
        _compile_again(model)
        _run(job, call, callbacks, epoch, changes)
        if job.variant == WITHOUT_EPOCHS:
            job.metric(BETWEEN_EPOCHS, 0.0)
    finally:
        for name, value in settings.items():
            setattr(model, name, value)
        _compile_again(model)


def _compile_again(model: Any) -> None:
    model.train_function = model.test_function = model.predict_function = None


def _fed(call: Call, dataset: tf.data.Dataset) -> dict[str, Any]:
    """Return the arguments that feed the call with a pipeline that already has labels and weights."""
    nothing = dict.fromkeys(("y", "sample_weight", "class_weight", "batch_size"))
    return {"x": dataset} | {
        name: value for name, value in {**nothing, "shuffle": False}.items() if name in call.arguments
    }


def steps_per_call(job: Job) -> int:
    """Return the steps per call of `without:launch`, limited by LONGEST_CALL_S."""
    wanted, step_s = STEPS_PER_CALL[job.spec.device], job.results.step_s(BASELINE)
    return max(1, min(wanted, int(LONGEST_CALL_S / step_s))) if step_s else wanted


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


def evaluate(job: Job, call: Call, arguments: Mapping[str, Any]) -> None:
    """Measure accuracy with the arguments of the script's own evaluate, after as many samples as the baseline."""
    began, model = job.meter.clock(), call.model
    call.use_early_weights()
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
    accuracy = next((float(value) for name, value in results.items() if _is_accuracy(name)), None)
    if accuracy is not None:
        job.metric(ACCURACY, accuracy)


def _is_accuracy(name: str) -> bool:
    """Return whether a result is an accuracy, and no loss of an output of that name."""
    parts = name.lower().split("_")
    return parts[-1] != "loss" and not {"acc", "accuracy"}.isdisjoint(parts)


def _subset(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return at most 2,000 samples spread over arrays, which may be sorted by class; {} for other inputs."""
    x = given["x"]
    if not all(isinstance(part, np.ndarray) for part in tf.nest.flatten(x)):
        return {}
    count = rows(x)
    chosen = np.linspace(0, count - 1, min(count, 2000)).astype(np.int64)
    names = [name for name in ("x", "y", "sample_weight") if given.get(name) is not None]
    return {name: tf.nest.map_structure(lambda part: np.asarray(part)[chosen], given[name]) for name in names}
