"""Data-parallel training: a model replica on each device, one all-reduce of all gradients per step.

MirroredStrategy reduces and updates variable by variable. Here a step has three parts: forward and backward
pass; one all-reduce of all gradients in a flat buffer; unscaling, the check for infinities and the optimizer.
On the GPUs of one machine XLA compiles all steps of a call, including the all-reduce, into one program per
GPU. On CPUs XLA does not support the all-reduce and compiles the other two parts separately. All replicas
start with the same weights and apply the same gradients, so they stay equal; moving averages such as batch
normalisation's are taken from the first device, as in MirroredStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from workloads.driver import building
from workloads.driver.job import Job
from workloads.driver.steps import Pick, looped

# Keys of the collective, far from those of TensorFlow's strategies, which count from 1.
GROUP_KEY = INSTANCE_KEY = 1_000_000


def build(job: Job) -> list[Any]:
    """Return a replica of the model for each device, with equal weights but different random seeds."""
    models = []
    for index, name in enumerate(job.devices):
        with tf.device(name):
            models.append(
                building.build(job.loaded.model, job.params, strategy=None, seed=job.spec.seed + index)
            )
            models[index].set_weights(models[0].get_weights())
    return models


def compile_train(
    job: Job, models: Sequence[Any], pick: Pick, *, steps: int, jit: bool
) -> Callable[[Sequence[Any], Any], Any]:
    """Return a function (tensors of each device, selection) -> loss that trains all replicas.

    The selection has shape [steps, replicas, ...], including the replicas of other workers.
    """
    # Not tested across machines.
    whole = jit and job.gpu and job.replicas == len(models)
    runs = []
    for model, name in zip(models, job.devices, strict=True):
        with tf.device(name):
            step = _replica(model, pick, job, jit=jit and not whole)
        runs.append(tf.function(looped(step, steps), jit_compile=True, autograph=False) if whole else step)
    first = job.worker * len(models)

    def on_all(tensors: Sequence[Any], chosen: Any) -> Any:
        losses = []
        for index, (name, run) in enumerate(zip(job.devices, runs, strict=True)):
            with tf.device(name):
                losses.append(run(tensors[index], chosen[..., first + index, :]))
        return tf.add_n(losses) / len(losses)

    return tf.function(on_all if whole else looped(on_all, steps), autograph=False)


def _replica(model: Any, pick: Pick, job: Job, *, jit: bool) -> Callable[[Any, Any], Any]:
    variables = model.trainable_variables
    tracker = building.loss_metric(model)
    # Half-precision gradients are scaled and checked for overflow, so they can be exchanged as float16.
    width = tf.float16 if hasattr(model.optimizer, "inner_optimizer") else tf.float32
    # One token per device, or the devices' all-reduces would wait for each other in sequence and deadlock.
    token = tf.Variable(0.0, trainable=False)

    def gradients(tensors: Any, chosen: Any) -> tuple[Any, Any]:
        x, y = pick(tensors, chosen)
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
            scaled = model.optimizer.scale_loss(loss)
        parts = [tf.convert_to_tensor(part) / job.replicas for part in tape.gradient(scaled, variables)]
        return loss, [tf.cast(tf.reshape(part, [-1]), width) for part in parts]

    def update(loss: Any, flat: Any) -> None:
        parts = tf.split(flat, [variable.shape.num_elements() for variable in variables])
        model.optimizer.apply_gradients(
            (tf.cast(tf.reshape(part, variable.shape), variable.dtype), variable)
            for part, variable in zip(parts, variables, strict=True)
        )
        if tracker is not None:
            tracker.update_state(loss)

    passes, finish = (tf.function(part, jit_compile=jit, autograph=False) for part in (gradients, update))

    def step(tensors: Any, chosen: Any) -> Any:
        loss, parts = passes(tensors, chosen)
        # Outside `passes`, because XLA's concatenation takes 100 times as long on a CPU.
        finish(loss, _summed(tf.concat(parts, 0), token, job))
        return loss

    return step


def _summed(flat: Any, token: Any, job: Job) -> Any:
    return tf.raw_ops.CollectiveReduceV2(
        input=flat,
        group_size=job.replicas,
        group_key=GROUP_KEY,
        instance_key=INSTANCE_KEY,
        ordering_token=[token.handle],
        merge_op="Add",
        final_op="Id",
        communication_hint="nccl" if job.gpu else "ring",
    )
