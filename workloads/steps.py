"""Compile training steps that run without Keras fit: several in one call, data already on the device.

The step itself is the model's own `train_step`: the same loss, metrics and optimiser as in fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

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


def compile_train(model: Any, pick: Pick, *, steps: int, jit: bool) -> Callable[[Any, Any], Any]:
    """Return a function (tensors, selection) -> loss that trains `steps` steps in one call."""
    return tf.function(
        looped(lambda tensors, chosen: model.train_step(pick(tensors, chosen))["loss"], steps),
        jit_compile=jit,
        autograph=False,
    )


def compile_mirrored(model: Any, strategy: tf.distribute.Strategy) -> Callable[[Any], Any]:
    """Return a function (batch of each device) -> loss that trains one step as Keras does under a strategy."""

    @tf.function(autograph=False)
    def run(batches: Any) -> Any:
        losses = strategy.run(lambda batch: model.train_step(batch)["loss"], (batches,))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    return run


def looped(step: Callable[[Any, Any], Any], steps: int) -> Callable[[Any, Any], Any]:
    """Return a function of (tensors, selection) that runs `steps` steps, each with its row of the selection."""

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


def compile_forward(model: Any, *, jit: bool, constant_weights: bool = False) -> Callable[[Any], Any]:
    """Return a function batch -> predictions.

    Args:
        constant_weights: make the weights constants of the program, in the type that the model computes in.
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
