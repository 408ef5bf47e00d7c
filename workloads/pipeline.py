"""Input pipelines: the one that Keras fit makes of arrays, those that a workload declares, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from workloads import rewriting
from workloads.job import Job
from workloads.loading import Stage


@dataclass(frozen=True)
class Epoch:
    """An epoch of an input.

    Attributes:
        batch: samples of a batch, all devices together.
        batches: how many; None if endless or unknown.
        missing: samples that the last batch lacks.
        ends: the input stops after the last batch; else it starts again by itself.
        exact: these numbers are known, not assumed.
    """

    batch: int
    batches: int | None = None
    missing: int = 0
    ends: bool = True
    exact: bool = True

    def samples(self, steps: int) -> int:
        """Return how many samples the first `steps` steps have, epoch after epoch."""
        return steps * self.batch - (steps // self.batches * self.missing if self.batches else 0)


def epoch_of(samples: int, batch: int) -> Epoch:
    """Return the epoch of so many samples, the last batch of which may be short."""
    batches = -(-samples // batch)
    return Epoch(batch, batches, batches * batch - samples)


def from_arrays(x: Any, y: Any, batch: int) -> tf.data.Dataset:
    """Return an epoch of arrays as Keras fit makes it: shuffled indices, gathered batch by batch."""
    with tf.device("CPU:0"):
        return ArrayDataAdapter(x, y, batch_size=batch, shuffle=True).get_tf_dataset()


def baseline(job: Job, *, devices: int = 0) -> Any:
    """Return what feeds baseline, and every variant that is fed as it is: a tf.data pipeline, or a loader.

    Args:
        devices: that a batch is for; 0 for all, those of other workers too.
    """
    batch = job.params["batch_size"] * (devices or job.replicas)
    if job.train is not None:
        return from_arrays(*job.arrays(), batch)
    with rewriting.parallel_maps() if job.params["parallel_maps"] else nullcontext():
        dataset = assemble(job.stages(batch))
    if job.params["prefetch_batches"] and not is_loader(dataset):
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return dataset


def is_loader(source: Any) -> bool:
    """Return whether an input is one of Keras' Python loaders instead of a tf.data pipeline."""
    return isinstance(source, tf.keras.utils.PyDataset)


def as_dataset(source: Any) -> tf.data.Dataset:
    """Return an epoch of an input as tf.data; of a Python loader, the pipeline that Keras fit makes of it."""
    return PyDatasetAdapter(source).get_tf_dataset() if is_loader(source) else source


def from_memory(source: Any) -> tuple[tf.data.Dataset, Epoch]:
    """Return a pipeline that repeats an input's first batch forever, and its epoch."""
    batch = next(iter(as_dataset(source)))
    with tf.device("CPU:0"):
        ready = tf.data.Dataset.from_tensors(batch).repeat()
    return ready, Epoch(size(batch))


def input_epoch(job: Job, source: Any) -> Epoch:
    """Return the epoch of baseline's input without iterating over it.

    Batches whose size TensorFlow does not know are counted by the elements before the stage "batch"; of a
    loader, the last batch is looked at.
    """
    batch = job.params["batch_size"] * job.replicas
    if job.train is not None:
        return epoch_of(len(job.train[0]), batch)
    if is_loader(source):
        count = source.num_batches
        # One without an end has whole batches only.
        return Epoch(batch, count, batch - size(source[count - 1])) if count else Epoch(batch, ends=False)
    count = int(source.cardinality())
    endless = count == tf.data.INFINITE_CARDINALITY
    whole = Epoch(batch, count if count > 0 else None, ends=not endless)
    shape = tf.nest.flatten(source.element_spec)[0].shape
    if shape.rank and shape[0]:
        return replace(whole, batch=shape[0])
    stages = job.stages(batch)
    names = [name for name, _ in stages]
    if "batch" in names[1:]:
        samples = int(assemble(stages, names[names.index("batch") - 1]).cardinality())
        if samples == tf.data.INFINITE_CARDINALITY:
            return whole
        counted = epoch_of(samples, batch)
        if samples > 0 and (endless or count == counted.batches):
            return replace(counted, ends=not endless)
    return replace(whole, exact=False)


def size(batch: Any) -> int:
    """Return how many samples a batch has."""
    return len(tf.nest.flatten(batch)[0])


def assemble(stages: Sequence[Stage], upto: str = "") -> Any:
    """Chain stages, all of them or those up to and including the one named `upto`."""
    names = [name for name, _ in stages]
    if upto and upto not in names:
        raise ValueError(f"No stage {upto!r}; the pipeline has: {', '.join(names)}.")
    (_, first), *rest = stages[: names.index(upto) + 1] if upto else stages
    dataset = first()
    for _, stage in rest:
        dataset = stage(dataset)
    return dataset
