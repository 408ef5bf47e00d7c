"""Compile training steps for use without Keras fit: several steps per call, or batches made elsewhere.

The step is the model's `train_step`, with the same loss, metrics and optimizer as in fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# (tensors on the device, selection of this step) -> (x, y)
Pick = Callable[[Any, Any], tuple[Any, Any]]


def gather(tensors: Any, indices: Any) -> tuple[Any, Any]:
    """Pick samples by index from a dataset in device memory."""
    x, y = tensors
    return tf.gather(x, indices), tf.gather(y, indices)


def same(tensors: Any, indices: Any) -> tuple[Any, Any]:
    """Pick the one resident batch."""
    del indices
    return tensors


def loss_of(model: Any, batch: Any) -> Any:
    """Run one training step; return its loss, or the first result of a step that names its losses differently."""
    results = model.train_step(batch)
    return results.get("loss", next(iter(results.values())))


def compile_train(model: Any, pick: Pick, *, steps: int, jit: bool) -> Callable[[Any, Any], Any]:
    """Return a function (tensors, selection) -> loss that runs `steps` training steps per call."""
    return tf.function(
        looped(lambda tensors, chosen: loss_of(model, pick(tensors, chosen)), steps),
        jit_compile=jit,
        autograph=False,
    )


def compile_mirrored(model: Any, strategy: tf.distribute.Strategy) -> Callable[[Any], Any]:
    """Return a function (batch of each device) -> loss that runs one step as in Keras under a strategy."""

    @tf.function(autograph=False)
    def run(batches: Any) -> Any:
        losses = strategy.run(lambda batch: loss_of(model, batch), (batches,))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    return run


def looped(step: Callable[[Any, Any], Any], steps: int) -> Callable[[Any, Any], Any]:
    """Return a function (tensors, selection) -> loss that runs a step for each row of the selection."""

    def many(tensors: Any, selection: Any) -> Any:
        if steps == 1:
            return step(tensors, selection[0])

        def body(index: Any, loss: Any) -> tuple[Any, Any]:
            del loss
            return index + 1, tf.cast(step(tensors, selection[index]), tf.float32)

        # `steps` is a constant, so that XLA knows the trip count and the host does not read the condition
        # back from the device after each step.
        return tf.while_loop(lambda index, _: index < steps, body, (0, 0.0), parallel_iterations=1)[1]

    return many


def compile_single(model: Any, signature: Any, *, jit: bool) -> Callable[[Any], Any]:
    """Return a function batch -> loss that runs one training step on a batch from outside.

    Args:
        signature: a dataset's element_spec, so that a short last batch is not compiled again; None to compile
            for each shape.
    """
    return tf.function(
        lambda batch: loss_of(model, batch),
        input_signature=None if signature is None else [signature],
        jit_compile=jit,
        autograph=False,
    )


def compile_forward(model: Any, *, jit: bool, constant_weights: bool = False) -> Callable[[Any], Any]:
    """Return a function batch -> predictions.

    Args:
        constant_weights: embed the weights as constants in the model's compute dtype.
    """
    if not constant_weights:
        return tf.function(lambda batch: model(batch, training=False), jit_compile=jit, autograph=False)
    trained, others = (
        [np.asarray(weight).astype(model.compute_dtype) for weight in part]
        for part in (model.trainable_variables, model.non_trainable_variables)
    )
    return tf.function(
        lambda batch: model.stateless_call(
            [*map(tf.constant, trained)], [*map(tf.constant, others)], batch, training=False
        )[0],
        jit_compile=jit,
        autograph=False,
    )
