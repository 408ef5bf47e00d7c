"""Training with several workers: the strategy, shared decisions, and a custom training loop.

Keras 3's fit and evaluate fail under MultiWorkerMirroredStrategy (TensorFlow 2.21: "Attempt to convert a
value (PerReplica) with an unsupported type to a Tensor"), so a custom loop runs Keras' train_step. All
workers run the same program; TF_CONFIG defines each one's index.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads.driver import models, steps
from workloads.driver.call import Call
from workloads.driver.job import Job

# Timed all-reduces of all gradients.
ALL_REDUCES = 20
# A worker that ends takes with it what the others still receive of the last all-reduce.
LAST_RECEIVED_S = 1.0


def strategy(workers: int) -> tf.distribute.Strategy:
    """Return the strategy over all workers of TF_CONFIG, after waiting for them to connect."""
    created = tf.distribute.MultiWorkerMirroredStrategy()
    spec = created.cluster_resolver.cluster_spec().as_dict()
    configured = len(spec.get("worker", ()))
    if configured != workers:
        raise RuntimeError(f"TF_CONFIG has {configured} workers, the spec has {workers}.")
    return created


def agreement(strategy: tf.distribute.Strategy) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a function that gives all workers the first worker's readings.

    All workers must run the same number of steps, or the last all-reduce waits forever.
    """

    def first_only(readings: Any) -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.where(tf.equal(replica, 0), readings, tf.zeros_like(readings))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def exchange(readings: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(first_only, (readings,)), axis=None)

    def agree(readings: Sequence[int]) -> Sequence[int]:
        return [int(value) for value in exchange(tf.constant(readings, tf.int64)).numpy()]

    return agree


def fit(job: Job, call: Call) -> None:
    """Train on each worker's share of the data, one batch per device and step."""
    strategy, meter, model = job.strategy, job.meter, call.model
    assert strategy is not None  # several workers have one
    batch = call.epoch.batch
    batches = iter(strategy.distribute_datasets_from_function(lambda context: _share(call, context)))
    run = steps.compile_mirrored(model, strategy)
    meter.loss = lambda: models.take_loss(model)
    total = call.arguments["epochs"] * call.samples_per_epoch if meter.full else 0
    meter.begin()
    while not total or meter.samples < total:
        began = time.monotonic_ns()
        element = next(batches)
        waited = time.monotonic_ns() - began
        run(element).numpy()
        if not meter.tick(1, batch * job.replicas, waited):
            return


def _share(call: Call, context: Any) -> tf.data.Dataset:
    """Return a worker's full batches: of its share of arrays, or of the whole pipeline."""
    dataset = (
        call.dataset
        if call.is_pipeline
        else call.dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    )
    batch = call.epoch.batch
    # Drops the short last batch of an epoch, because all devices must do the same work in every step.
    return dataset.repeat().filter(lambda *parts: tf.equal(tf.shape(tf.nest.flatten(parts)[0])[0], batch))


def report_collective(job: Job, model: Any) -> None:
    """Measure one all-reduce of all gradients without other work: collective_s and gradient_bytes.

    A step overlaps part of the all-reduce with computation, so this is an upper bound of its cost; the value
    with one worker is the minimum.
    """
    strategy = job.strategy
    assert strategy is not None  # several workers have one
    shapes = [tf.TensorShape(variable.shape) for variable in model.trainable_variables]

    def all_reduce() -> Any:
        parts = [tf.zeros(shape) for shape in shapes]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, parts)[0]

    run = tf.function(lambda: strategy.run(all_reduce), autograph=False)

    def timed() -> float:
        began = time.monotonic_ns()
        for value in strategy.experimental_local_results(run()):
            value.numpy()
        return (time.monotonic_ns() - began) / 1e9

    timed()
    job.events.metric("", "collective_s", statistics.median(timed() for _ in range(ALL_REDUCES)))
    job.events.metric("", "gradient_bytes", 4.0 * sum(shape.num_elements() for shape in shapes))
    if job.spec.workers > 1:
        time.sleep(LAST_RECEIVED_S)
