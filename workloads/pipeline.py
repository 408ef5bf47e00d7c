"""Input pipelines: the one that Keras fit makes of arrays, those that a workload declares, and draining."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from workloads import loaders, rewriting
from workloads.author import Stage
from workloads.devices import touch
from workloads.job import Job
from workloads.protocol import STAGE_PREFIX

# So many single samples are drained at once: few, since large ones are held in memory together.
GATHERED = 16


class StageError(ValueError):
    """A stage that the workload's pipeline does not have."""


@dataclass(frozen=True)
class Pass:
    """What going through an input once gives.

    Attributes:
        batch: samples of a batch, all devices together.
        batches: how many; None where there is no end, or where it is not known.
        short: samples that the last batch lacks.
        ends: the input ends with them; else it begins again by itself.
        sure: whether all of this is known, and not only taken to be so.
    """

    batch: int
    batches: int | None = None
    short: int = 0
    ends: bool = True
    sure: bool = True


def from_arrays(x: Any, y: Any, batch: int) -> tf.data.Dataset:
    """Return the pipeline that Keras fit builds from arrays: shuffled indices, gathered batch by batch.

    Source: keras/src/trainers/data_adapters/array_data_adapter.py (Keras 3); Keras 2 does the same.
    """
    count = len(x)
    full = count // batch

    def permutation(_: Any) -> Any:
        return tf.random.shuffle(tf.range(count, dtype=tf.int64))

    def cut(indices: Any) -> tf.data.Dataset:
        batches = tf.data.Dataset.from_tensor_slices(tf.reshape(indices[: full * batch], [full, batch]))
        if count % batch:
            batches = batches.concatenate(tf.data.Dataset.from_tensors(indices[full * batch :]))
        return batches

    with tf.device("CPU:0"):
        arrays = tf.data.Dataset.from_tensors((x, y)).repeat()
        indices = tf.data.Dataset.range(1).map(permutation).prefetch(1).flat_map(cut)
        batches = tf.data.Dataset.zip((indices, arrays)).map(
            lambda chosen, data: tuple(tf.gather(part, chosen) for part in data),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return batches.prefetch(tf.data.AUTOTUNE)


def baseline(job: Job, params: Mapping[str, Any], *, devices: int = 0) -> Any:
    """Return what feeds baseline, and every variant that is fed as it is: a tf.data pipeline, or a loader.

    Args:
        devices: that a batch is for; 0 for all, those of other workers too.
    """
    batch = params["batch_size"] * (devices or job.replicas)
    if job.train is not None:
        return from_arrays(*job.arrays(), batch)
    with rewriting.asked_for(params):
        dataset = assemble(job.stages({**params, "batch_size": batch}))
    if params["prefetch_batches"] and not loaders.is_loader(dataset):
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return dataset


def from_memory(job: Job, params: Mapping[str, Any]) -> tuple[tf.data.Dataset, Pass, int | None]:
    """Return a pipeline that gives baseline's first batch for ever, its pass, and the steps of an epoch.

    An epoch has as many steps as baseline's, as far as that is known: its end costs time too.
    """
    source = baseline(job, params)
    steps = job.author.workload.samples_per_epoch // (params["batch_size"] * job.replicas) or None
    if job.train is not None:
        steps = -(-len(job.train[0]) // (params["batch_size"] * job.replicas))
    elif not steps and not endless(source):
        steps = one_pass(job, params, source).batches
    batch = next(iter(loaders.as_dataset(source) if loaders.is_loader(source) else source))
    with tf.device("CPU:0"):
        ready = tf.data.Dataset.from_tensors(batch).repeat()
    return ready, Pass(int(tf.nest.flatten(batch)[0].shape[0])), steps


def endless(source: Any) -> bool:
    """Tell whether a pipeline or a loader goes on for ever."""
    if loaders.is_loader(source):
        return source.num_batches is None
    return bool(source.cardinality() == tf.data.INFINITE_CARDINALITY)


def one_pass(job: Job, params: Mapping[str, Any], source: Any) -> Pass:
    """Return what going through baseline's input once gives, without going through it.

    Batches whose size TensorFlow does not know are counted by the elements before the stage "batch"; of a
    loader, the last batch is looked at.
    """
    batch = params["batch_size"] * job.replicas
    if loaders.is_loader(source):
        return loader_pass(source, batch)
    count = int(source.cardinality())
    batches = count if count > 0 else None
    shape = tf.nest.flatten(source.element_spec)[0].shape
    if shape.rank and shape[0]:
        return Pass(shape[0], batches)
    names = [name for name, _ in job.stages(params)]
    if "batch" not in names[1:]:
        return Pass(batch, batches, sure=False)
    before = assemble(job.stages({**params, "batch_size": batch}), names[names.index("batch") - 1])
    samples = int(before.cardinality())
    if samples == tf.data.INFINITE_CARDINALITY:
        return Pass(batch, batches)
    needed = -(-samples // batch)
    if samples > 0 and count in (needed, tf.data.INFINITE_CARDINALITY):
        return Pass(batch, needed, needed * batch - samples, ends=count > 0)
    return Pass(batch, batches, sure=False)


def loader_pass(source: Any, batch: int) -> Pass:
    """Return what going through a Python loader once gives; one without an end has whole batches only."""
    count = source.num_batches
    if not count:
        return Pass(batch)
    return Pass(batch, count, batch - len(tf.nest.flatten(source[count - 1])[0]))


def on_threads(dataset: tf.data.Dataset, threads: int) -> tf.data.Dataset:
    """Return a pipeline that computes on so many threads of its own."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def assemble(stages: Sequence[Stage], upto: str = "") -> tf.data.Dataset:
    """Chain stages, all of them or those up to and including the one named `upto`.

    Raises:
        StageError: no such stage.
    """
    names = [name for name, _ in stages]
    if upto and upto not in names:
        raise StageError(f"No stage {upto!r}; the pipeline has: {', '.join(names)}.")
    (_, first), *rest = stages[: names.index(upto) + 1] if upto else stages
    dataset = first()
    for _, stage in rest:
        dataset = stage(dataset)
    return dataset


def prefix_of(variant: str) -> str:
    """Return the stage that the variant "stage:NAME" ends with, "" for other variants."""
    return variant.removeprefix(STAGE_PREFIX) if variant.startswith(STAGE_PREFIX) else ""


def drain(dataset: tf.data.Dataset, names: Sequence[str]) -> Callable[[int], int]:
    """Return a function that pulls n batches, in a compiled loop as Keras fit would, with no model.

    It returns how many samples they held, since the last batch of an epoch may be short.

    Args:
        names: of the devices that a batch's shares are copied to; none to leave batches where they are.
    """
    return _puller(
        dataset.repeat(), lambda batch: (_rows(batch), touch(batch, names)), "" if names else "CPU:0"
    )


def drain_samples(dataset: tf.data.Dataset) -> Callable[[int], int]:
    """Return a function that pulls n times GATHERED single samples, and returns how many that were.

    tf.data gathers them itself: pulled one by one, each would take 20 us and more beside its own time.
    """
    windows = dataset.repeat().window(GATHERED, drop_remainder=True)
    return _puller(windows, lambda _: (GATHERED, 0.0), "CPU:0")


def _puller(
    dataset: tf.data.Dataset, look: Callable[[Any], tuple[Any, Any]], place: str
) -> Callable[[int], int]:
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def pull(count: Any) -> Any:
        def body(index: Any, samples: Any, seen: Any) -> tuple[Any, Any, Any]:
            more, touched = look(iterator.get_next())
            return index + 1, samples + more, seen + touched

        # TensorFlow leaves whole numbers in host memory, but would sum what was seen on a GPU: its launch
        # takes many times as long as a small element.
        with tf.device(place or None):
            start = (0, 0, 0.0)
            return tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)[1:]

    def run(count: int) -> int:
        samples, seen = pull(tf.constant(count))
        seen.numpy()  # what was copied has arrived
        return int(samples)

    return run


def _rows(element: Any) -> Any:
    first = tf.nest.flatten(element)[0]
    return tf.cast(tf.shape(first)[0] if first.shape.rank else 1, tf.int32)
