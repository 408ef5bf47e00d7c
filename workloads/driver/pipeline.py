"""Input pipelines, made from arrays as in Keras fit or declared by a workload, and their epochs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from workloads.driver import patching
from workloads.driver.job import Job
from workloads.protocol import Stage


@dataclass(frozen=True)
class Epoch:
    """An epoch of an input.

    Attributes:
        batch: global batch size.
        batches: batches per epoch; None if endless or unknown.
        missing: number of samples by which the last batch is short.
        ends: whether the input stops after the last batch; else it repeats.
        exact: whether these numbers are known rather than assumed.
    """

    batch: int
    batches: int | None = None
    missing: int = 0
    ends: bool = True
    exact: bool = True

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first `steps` steps, over all epochs."""
        return steps * self.batch - (steps // self.batches * self.missing if self.batches else 0)


def epoch_of(samples: int, batch: int) -> Epoch:
    """Return the epoch of `samples` samples; its last batch may be short."""
    batches = -(-samples // batch)
    return Epoch(batch, batches, batches * batch - samples)


def from_arrays(x: Any, y: Any, batch: int) -> tf.data.Dataset:
    """Return an epoch of arrays as in Keras fit: shuffled indices, gathered per batch."""
    with tf.device("CPU:0"):
        return ArrayDataAdapter(x, y, batch_size=batch, shuffle=True).get_tf_dataset()


def baseline(job: Job, *, devices: int = 0) -> Any:
    """Return the baseline's input: a tf.data pipeline or a Keras loader.

    Args:
        devices: number of devices per batch; 0 for all, including those of other workers.
    """
    batch = job.params["batch_size"] * (devices or job.replicas)
    if job.train is not None:
        return from_arrays(*job.arrays(), batch)
    with patching.parallel_maps() if job.params["parallel_maps"] else nullcontext():
        dataset = assemble(job.stages(batch))
    if job.params["prefetch_batches"] and not is_loader(dataset):
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return dataset


def is_loader(source: Any) -> bool:
    """Return whether an input is a Keras Python loader instead of a tf.data pipeline."""
    return isinstance(source, tf.keras.utils.PyDataset)


def as_dataset(source: Any) -> tf.data.Dataset:
    """Return an epoch of an input as tf.data, converting a Python loader like Keras fit."""
    return PyDatasetAdapter(source).get_tf_dataset() if is_loader(source) else source


def from_memory(source: Any) -> tuple[tf.data.Dataset, Epoch]:
    """Return a pipeline that repeats an input's first batch forever, and its epoch."""
    batch = next(iter(as_dataset(source)))
    with tf.device("CPU:0"):
        ready = tf.data.Dataset.from_tensors(batch).repeat()
    return ready, Epoch(size(batch), ends=False)


def input_epoch(job: Job, source: Any) -> Epoch:
    """Return the epoch of the baseline's input without iterating over it.

    If TensorFlow does not know the batch size, the elements before the stage "batch" are counted. For a
    loader, the size of the last batch is read.
    """
    batch = job.params["batch_size"] * job.replicas
    if job.train is not None:
        return epoch_of(len(job.train[0]), batch)
    if is_loader(source):
        count = source.num_batches
        # Endless loaders have only full batches.
        return Epoch(batch, count, batch - size(source[count - 1])) if count else Epoch(batch, ends=False)
    count = int(source.cardinality())
    endless = count == tf.data.INFINITE_CARDINALITY
    epoch = Epoch(batch, count if count > 0 else None, ends=not endless)
    shape = tf.nest.flatten(source.element_spec)[0].shape
    if shape.rank and shape[0]:
        return replace(epoch, batch=shape[0])
    stages = job.stages(batch)
    names = [name for name, _ in stages]
    if "batch" in names[1:]:
        samples = int(assemble(stages, names[names.index("batch") - 1]).cardinality())
        if samples == tf.data.INFINITE_CARDINALITY:
            return epoch
        counted = epoch_of(samples, batch)
        if samples > 0 and (endless or count == counted.batches):
            return replace(counted, ends=not endless)
    return replace(epoch, exact=False)


def size(batch: Any) -> int:
    """Return the number of samples in a batch."""
    return len(tf.nest.flatten(batch)[0])


def assemble(stages: Sequence[Stage], upto: str = "") -> Any:
    """Chain all stages, or those up to and including `upto`."""
    names = [name for name, _ in stages]
    if upto and upto not in names:
        raise ValueError(f"No stage {upto!r}; the pipeline has: {', '.join(names)}.")
    (_, first), *others = stages[: names.index(upto) + 1] if upto else stages
    dataset = first()
    for _, stage in others:
        dataset = stage(dataset)
    return dataset
