"""Ends of epochs: what follows their last step, also of epochs too long to end while they are measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import tensorflow as tf
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from workloads.driver.call import Call, brief, brief_validation, rows
from workloads.driver.interception import FIT
from workloads.driver.job import Job
from workloads.protocol import BATCHES_PREFIX
from workloads.variants import BASELINE

# Of a validation whose epoch does not end while it is measured, a part of so many batches is timed, then larger ones
# that are to take _LONG_S, until one has taken _ENOUGH_S.
_FEW_BATCHES, _ENOUGH_S, _LONG_S = 8, 1.0, 2.0
# Epochs of a training that is to show one end: the first traces.
SHORT_EPOCHS = 2
# The batches of a pipeline of unknown length are counted for as long as this.
_LONGEST_COUNT_S = 30.0
# An end of an epoch does not matter beside steps of which it is this share.
_NO_MATTER = 0.001


class EpochEnds(tf.keras.callbacks.Callback):
    """Time what follows the last step of an epoch; must be called before all other callbacks.

    Attributes:
        ended_ns: when the last step of the last epoch that ended was over, on the devices too.
        validation_ns: length of the epoch's validation; 0 without one.
        begun: epochs that have begun.
    """

    def __init__(self, synchronise: Callable[[], None]) -> None:
        super().__init__()
        self._synchronise = synchronise
        self._trains = False
        self._validates_ns = 0
        self.ended_ns = self.validation_ns = self.begun = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch."""
        self._trains = True
        self.begun += 1

    def on_test_begin(self, logs: Any = None) -> None:
        """Validate, after the last step."""
        self._end()
        self._validates_ns = time.monotonic_ns()

    def on_test_end(self, logs: Any = None) -> None:
        """End a validation."""
        self.validation_ns = time.monotonic_ns() - self._validates_ns

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End an epoch, after its validation if it has one."""
        if self._trains:
            self.validation_ns = 0
        self._end()

    def of(self, given: Any) -> AbstractContextManager[None]:
        """See the ends of epochs of an input too: of a loader, what it does after its last batch (on_epoch_end)."""

        def ending(end: Callable[[Any], None]) -> Callable[[Any], None]:
            def ended(adapter: Any) -> None:
                self._end()
                end(adapter)

            return ended

        return around_end_of(given, ending)

    def _end(self) -> None:
        if self._trains:
            self._synchronise()
            self._trains, self.ended_ns = False, time.monotonic_ns()


@contextmanager
def around_end_of(
    given: Any, wrapped: Callable[[Callable[[Any], None]], Callable[[Any], None]]
) -> Iterator[None]:
    """Wrap what ends an epoch of a loader in Keras, inside the block; nothing of another input."""
    end = PyDatasetAdapter.on_epoch_end
    around = wrapped(end)

    def ended(adapter: Any) -> None:
        (around if adapter.py_dataset is given else end)(adapter)

    with patch.object(PyDatasetAdapter, "on_epoch_end", ended):
        yield


def end_s(job: Job, call: Call, own: Sequence[Any], stride: int) -> float:
    """Return the seconds that the end of an epoch takes, from short epochs; 0 where nothing is done then.

    A long validation is known from parts of it that grow: its start does not take longer with more batches.

    Args:
        own: the script's callbacks.
        stride: steps per call (steps_per_execution).
    """
    batches = _validation_batches(job, call)
    if not (own or batches or call.is_loader):
        return 0.0
    rest_s, taken_s = _second_end(job, call, own, stride, size := min(batches, _FEW_BATCHES))
    before_s, smaller = 0.0, 0
    while size < batches and 0 < taken_s < (_ENOUGH_S if smaller else _LONG_S):
        before_s, smaller = taken_s, size
        size = min(batches, round(size * max(2.0, min(8.0, _LONG_S / taken_s))))
        _, taken_s = _second_end(job, call, own, stride, size)
    if size < batches:
        taken_s += (batches - size) * max(0.0, taken_s - before_s) / (size - smaller)
    return rest_s + taken_s / validated_every(call)


def _second_end(job: Job, call: Call, own: Sequence[Any], stride: int, batches: int) -> tuple[float, float]:
    """Return what the end of the second of two short epochs takes, as the first traces.

    Args:
        batches: of its validation; 0 for none.

    Returns:
        Seconds without the validation, and those of the validation.
    """
    ends = EpochEnds(job.meter.synchronise)
    given = brief(call.arguments, epochs=SHORT_EPOCHS, steps=stride) | {"verbose": 0}
    if batches:
        given |= brief_validation(call.arguments, batches) | {"validation_freq": 1}
    with ends.of(given["x"]):
        FIT(call.model, **{**given, "callbacks": [ends, *own]})
    if not ends.ended_ns:  # a callback has skipped these epochs, as one that restores a training may
        return 0.0, 0.0
    length_ns = time.monotonic_ns() - ends.ended_ns
    return (length_ns - ends.validation_ns) / 1e9, ends.validation_ns / 1e9


def validated_every(call: Call) -> float:
    """Return of how many epochs one is validated; 1 without a validation."""
    given = call.arguments.get("validation_freq") or 1
    return float(given) if isinstance(given, int) else call.epochs / max(1, len(given))


def _validation_batches(job: Job, call: Call) -> int:
    """Return the batches of a validation; 0 if there is none, or it has no end."""
    data, given = call.arguments.get("validation_data"), call.arguments
    if data is None:
        return 0
    if given.get("validation_steps"):
        return int(given["validation_steps"])
    if isinstance(data, tf.data.Dataset):
        count = int(data.cardinality())
        if count == tf.data.UNKNOWN_CARDINALITY:
            return _count(job, data, "validation", "validation")
        return max(0, count)
    if isinstance(data, tf.keras.utils.PyDataset):
        return int(data.num_batches or 0)
    size = given.get("validation_batch_size") or given.get("batch_size") or 32
    return -(-rows(data) // size) if isinstance(data, (tuple, list)) else 0


def counted_steps(job: Job, call: Call, seconds: float) -> int:
    """Return the steps of an epoch whose length TensorFlow does not know; 0 if they take too long to count.

    Args:
        seconds: of the end of an epoch; only so many steps are counted that it would not matter beside more.
    """
    if not call.is_pipeline:
        return 0
    most = seconds / (_NO_MATTER * (job.results.step_s(job.variant) or math.inf))
    return _count(job, call.arguments["x"], "training", "the ends of its epochs", most=most or math.inf)


def _count(job: Job, data: tf.data.Dataset, part: str, left_out: str, most: float = math.inf) -> int:
    """Return the batches of a pipeline of unknown length, counted once in a trial; 0 if that takes too long.

    Args:
        most: no more than one beyond is counted.
    """
    name = f"{BATCHES_PREFIX}{part}"
    known = job.results.metric(BASELINE, name)
    if known is not None:
        return int(known)
    count, began = 0, time.monotonic()
    for _ in data:
        count += 1
        if count > most:
            break
        if time.monotonic() - began > _LONGEST_COUNT_S:
            job.events.warning(
                f"TensorFlow does not know the length of the {part} data, and to read {count} batches of it took "
                f"{_LONGEST_COUNT_S:.0f} s: speeds are without {left_out}. Say how many batches there are with "
                "data = data.apply(tf.data.experimental.assert_cardinality(N))."
            )
            count = 0
            break
    if job.variant == BASELINE:
        job.metric(name, count)
    return count
