"""What runs and reads a compiled Keras model without fit: its steps, its loss, and batches to feed it with.

The step is the model's own `train_step`, with the same loss, metrics and optimizer as in fit, or `test_step` or
`predict_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import tensorflow as tf

from workloads.driver.call import Call


def result_of(call: Call, batch: Any) -> Any:
    """Run one step; return its loss, or the first result of a step that has none."""
    model = call.model
    if not (call.trains or call.evaluates):
        return tf.nest.flatten(model.predict_step(batch))[0]
    results = model.train_step(batch) if call.trains else model.test_step(batch)
    return results.get("loss", next(iter(results.values())))


def compile_many(call: Call, signature: Any, *, steps: int, jit: bool) -> Callable[[Any], Any]:
    """Return a function batch -> loss that runs `steps` training steps on the same batch per call.

    Args:
        signature: as for `compile_single`.
    """

    def many(batch: Any) -> Any:
        def body(index: Any, loss: Any) -> tuple[Any, Any]:
            del loss
            return index + 1, tf.cast(result_of(call, batch), tf.float32)

        # `steps` is a constant, so that XLA knows the trip count and the host does not read the condition
        # back from the device after each step.
        return tf.while_loop(lambda index, _: index < steps, body, (0, 0.0), parallel_iterations=1)[1]

    return _compiled(many, signature, jit=jit)


def compile_mirrored(call: Call, strategy: tf.distribute.Strategy) -> Callable[[Any], Any]:
    """Return a function (batch of each device) -> loss that runs one step as in Keras under a strategy."""

    @tf.function(autograph=False)
    def run(batches: Any) -> Any:
        losses = strategy.run(lambda batch: result_of(call, batch), (batches,))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    with strategy.scope():
        call.model.optimizer.build(call.model.trainable_variables)
    return run


def compile_single(call: Call, signature: Any, *, jit: bool) -> Callable[[Any], Any]:
    """Return a function batch -> result that runs one step on a batch from outside.

    Args:
        signature: a dataset's element_spec, so that a short last batch is not compiled again; None to compile
            for each shape. With an unknown batch size TensorFlow also folds no constants of the batch's size, such
            as attention's masks, which takes a minute for GPT-2.
    """
    return _compiled(lambda batch: result_of(call, batch), signature, jit=jit)


def _compiled(function: Callable[[Any], Any], signature: Any, *, jit: bool) -> Callable[[Any], Any]:
    given = None if signature is None else [signature]
    return cast(
        Callable[[Any], Any],
        tf.function(function, input_signature=given, jit_compile=jit, autograph=False),
    )


def compile_forward(model: Any) -> Callable[[Any], Any]:
    """Return a function batch -> predictions."""
    return tf.function(
        lambda batch: model(batch, training=False), jit_compile=bool(model.jit_compile), autograph=False
    )


def running_loss(model: Any) -> float | None:
    """Return the mean loss since Keras last reset its metrics (each epoch in fit); None after a reset."""
    metric: Any = next((each for each in model.metrics if each.name == "loss"), None)
    if metric is None:
        return None
    # Without any samples Keras returns 0, which would look like a real loss.
    count = getattr(metric, "count", None)
    if count is not None and float(tf.convert_to_tensor(count)) == 0:
        return None
    return float(metric.result())


def iterations(model: Any) -> int:
    """Return the steps that a model's optimizer has made; 0 if it does not tell."""
    with suppress(Exception):  # the script's own optimizer
        return int(model.optimizer.iterations)
    return 0


def take_loss(model: Any) -> float | None:
    """Return the mean loss since the last call, None without steps; for custom training loops."""
    loss = running_loss(model)
    model.reset_metrics()
    return loss


def repeated(batch: Any) -> tf.data.Dataset:
    """Return a pipeline that repeats a batch in host memory forever."""
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors(batch).repeat()


def loops_of_kernels(model: Any) -> Iterator[tuple[str, str]]:
    """Yield (path, why) of each LSTM and GRU that cannot use cuDNN's kernel, by the rules of Keras (3.15).

    Without it, a GPU runs small kernels for each time step, one after the other.
    """
    for layer in model._flatten_layers():
        if isinstance(layer, (tf.keras.layers.LSTM, tf.keras.layers.GRU)):
            why = [f"{name}={value}" for name, value in _without_kernel(layer)]
            if why:
                yield layer.path, ", ".join(why)


def _without_kernel(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a recurrent layer that cuDNN's kernel does not have."""
    for name, needed in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        used = getattr(getattr(layer, name), "__name__", "a function")
        if used != needed:
            yield name, used
    if layer.recurrent_dropout:
        yield "recurrent_dropout", f"{layer.recurrent_dropout:g}"
    expected = {"unroll": False, "use_bias": True, "reset_after": True}
    for name, usual in expected.items():
        value = getattr(layer, name, usual)
        if bool(value) is not usual:
            yield name, value
    if layer.use_cudnn is False:
        yield "use_cudnn", False
