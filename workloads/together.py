"""Training one model with several workers: the strategy, and decisions that all workers share.

Keras 3's fit and evaluate refuse MultiWorkerMirroredStrategy (TensorFlow 2.21: "Attempt to convert a value
(PerReplica) with an unsupported type to a Tensor"), so that the step is Keras' own train_step, run by a loop
of ours. Every worker runs this same program; TF_CONFIG in the environment tells it which one it is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads import building, pipeline, steps
from workloads.job import Job

# Timed exchanges of all gradients.
EXCHANGES = 20


def strategy(workers: int) -> tf.distribute.Strategy:
    """Return the strategy over all workers of TF_CONFIG; waits until each of them has come."""
    made = tf.distribute.MultiWorkerMirroredStrategy()
    spec = made.cluster_resolver.cluster_spec().as_dict()
    listed = len(spec.get("worker", ()))
    if listed != workers:
        raise RuntimeError(f"TF_CONFIG names {listed} workers, the spec {workers}.")
    return made


def agreement(among: tf.distribute.Strategy) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a function that gives every worker the first one's readings.

    All must take the same steps, or the last one waits forever for partners in its exchange of gradients.
    """

    def of_the_first(readings: Any) -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.where(tf.equal(replica, 0), readings, tf.zeros_like(readings))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def exchange(readings: Any) -> Any:
        return among.reduce(tf.distribute.ReduceOp.SUM, among.run(of_the_first, (readings,)), axis=None)

    def agree(readings: Sequence[int]) -> Sequence[int]:
        return [int(value) for value in exchange(tf.constant(readings, tf.int64)).numpy()]

    return agree


def fit(job: Job, model: Any) -> None:
    """Train from every worker's own share of the data, one batch a device and step."""
    among, meter, batch = job.strategy, job.meter, job.params["batch_size"]
    batches = iter(among.distribute_datasets_from_function(lambda context: _share(job, context)))
    run = steps.compile_mirrored(model, among)
    meter.loss = lambda: building.take_loss(model)
    samples = len(job.train[0]) if job.train is not None else job.workload.data.train
    total = job.params["epochs"] * samples if meter.full else 0
    meter.begin()
    while not total or meter.samples < total:
        began = time.monotonic_ns()
        element = next(batches)
        waited = time.monotonic_ns() - began
        run(element).numpy()
        if not meter.tick(1, batch * job.replicas, waited):
            return


def _share(job: Job, context: Any) -> tf.data.Dataset:
    if job.train is None:
        return pipeline.assemble(job.stages()).repeat()
    batch = job.params["batch_size"]
    mine = slice(context.input_pipeline_id, None, context.num_input_pipelines)
    shuffled = pipeline.from_arrays(*(part[mine] for part in job.train), batch).repeat()
    # The last batch of an epoch is short; devices that meet in every step must not differ in work.
    return shuffled.filter(lambda part, _: tf.equal(tf.shape(part)[0], batch))


def report_collective(job: Job) -> None:
    """Write how long one exchange of all gradients takes while nothing else is computed.

    Metrics "collective_s" and "gradient_bytes". A step hides part of the exchange behind its arithmetic, so
    that this is the most that exchanging can cost it, and what it costs with one worker is the floor.
    """
    among = job.strategy
    model = building.build(job.loaded.model, job.params, strategy=among, seed=job.spec.seed)
    shapes = [tf.TensorShape(variable.shape) for variable in model.trainable_variables]

    def exchange() -> Any:
        parts = [tf.zeros(shape) for shape in shapes]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, parts)[0]

    run = tf.function(lambda: among.run(exchange), autograph=False)

    def timed() -> float:
        began = time.monotonic_ns()
        for value in among.experimental_local_results(run()):
            value.numpy()
        return (time.monotonic_ns() - began) / 1e9

    timed()
    job.events.metric("", "collective_s", statistics.median(timed() for _ in range(EXCHANGES)))
    job.events.metric("", "gradient_bytes", 4.0 * sum(shape.num_elements() for shape in shapes))
