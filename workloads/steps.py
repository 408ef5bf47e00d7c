"""Compile training steps that run without Keras fit: several in one call, data already on the device.

The step itself is the model's own `train_step`: the same loss, metrics and optimiser as in fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from workloads import building

# (tensors on the device, what this step takes of them) -> (x, y)
Pick = Callable[[Any, Any], tuple[Any, Any]]


def gather(tensors: Any, indices: Any) -> tuple[Any, Any]:
    """Pick samples by index out of a dataset that lies on the device."""
    x, y = tensors
    return tf.gather(x, indices), tf.gather(y, indices)


def same(tensors: Any, indices: Any) -> tuple[Any, Any]:
    """Pick the one resident batch."""
    del indices
    return tensors


def compile_train(
    model: Any, pick: Pick, *, steps: int, jit: bool, strategy: tf.distribute.Strategy | None
) -> Callable[[Any, Any], Any]:
    """Return a function (tensors, selection) -> loss that trains `steps` steps in one call.

    Args:
        pick: makes a step's batch.
        steps: loops inside the compiled function, a number known to XLA.
        jit: compile by XLA; with a strategy only forward and backward pass, since replicas meet in between.
        strategy: for several devices: selection then has shape [steps, replicas, ...].
    """
    if strategy is None:
        return tf.function(
            _loop(lambda tensors, chosen: model.train_step(pick(tensors, chosen))["loss"], steps),
            jit_compile=jit,
            autograph=False,
        )
    step = _replica_step(model, pick, jit=jit)

    def on_all(tensors: Any, chosen: Any) -> Any:
        losses = strategy.run(step, args=(tensors, chosen))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    return tf.function(_loop(on_all, steps), autograph=False)


def _loop(step: Callable[[Any, Any], Any], steps: int) -> Callable[[Any, Any], Any]:
    def many(tensors: Any, selection: Any) -> Any:
        if steps == 1:
            return step(tensors, selection[0])

        def body(index: Any, loss: Any) -> tuple[Any, Any]:
            del loss
            return index + 1, tf.cast(step(tensors, selection[index]), tf.float32)

        # `steps` is a constant here, so that XLA knows the number of rounds and the host need not read the
        # condition back from the device after each.
        return tf.while_loop(lambda index, _: index < steps, body, (0, 0.0), parallel_iterations=1)[1]

    return many


def _replica_step(model: Any, pick: Pick, *, jit: bool) -> Callable[[Any, Any], Any]:
    def mine(chosen: Any) -> Any:
        return chosen[tf.distribute.get_replica_context().replica_id_in_sync_group]

    if not jit:
        return lambda tensors, chosen: model.train_step(pick(tensors, mine(chosen)))["loss"]

    @tf.function(jit_compile=True, autograph=False)
    def gradients(x: Any, y: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
            scaled = _scaled(model.optimizer, loss)
        return loss, tape.gradient(scaled, model.trainable_variables)

    tracker = building.loss_metric(model)

    def step(tensors: Any, chosen: Any) -> Any:
        loss, grads = gradients(*pick(tensors, mine(chosen)))
        model.optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        # Keras has divided the loss by the number of replicas, so that gradients can be summed.
        loss = loss * tf.distribute.get_strategy().num_replicas_in_sync
        if tracker is not None:
            # As Keras' own train_step does, which this stands in for: the loss is read from there.
            tracker.update_state(loss)
        return loss

    return step


def _scaled(optimizer: Any, loss: Any) -> Any:
    scale = getattr(optimizer, "scale_loss", None) or getattr(optimizer, "get_scaled_loss", None)
    return scale(loss) if scale is not None else loss


def compile_single(model: Any, signature: Any, *, jit: bool) -> Callable[[Any], Any]:
    """Return a function batch -> loss that trains one step, for batches made outside of it.

    Args:
        signature: a dataset's element_spec, so that a short last batch compiles nothing anew; None to compile
            for each shape.
    """
    return tf.function(
        lambda batch: model.train_step(batch)["loss"],
        input_signature=None if signature is None else [signature],
        jit_compile=jit,
        autograph=False,
    )


def compile_forward(model: Any, *, jit: bool) -> Callable[[Any], Any]:
    """Return a function batch -> predictions."""
    return tf.function(lambda batch: model(batch, training=False), jit_compile=jit, autograph=False)
