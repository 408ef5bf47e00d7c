"""Many training steps per call of plain Keras fit, on samples in the device's memory.

Keras launches each step from Python and copies each batch to the device. For a small model that takes longer
than the step itself.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

# The name of what is in a batch, which no other input has.
INDICES = "indices of many steps"


def train_many_steps(model: keras.Model, x: Any, y: Any, batch_size: int) -> None:
    """Let a compiled model train with several steps per call of its compiled step.

    Fit it on batches of sample indices, as from `shuffled`. Nothing else of the model changes: it evaluates, predicts,
    is saved, and trains on other input as before.

    Args:
        x, y: all training samples and labels; copied to the device.
        batch_size: samples per training step.

    Raises:
        TypeError: the model does not train with Keras' own step, or on something else than arrays.
    """
    own = "train_step" in vars(model) and not hasattr(model.train_step, "many_steps")
    if own or type(model).train_step is not keras.Model.train_step:
        raise TypeError(
            f"{type(model).__name__} has a train_step of its own, which many steps per call would replace"
        )
    running = getattr(model.train_function, "python_function", model.train_function)
    if running is not None and not str(running.__module__).startswith("keras."):
        raise TypeError(
            f"{type(model).__name__} has a train_function of its own, which many steps per call would replace"
        )
    samples = _on_device(x), _on_device(y)
    # Variables must exist before the loop.
    if not model.built:
        model(samples[0][:1])
    model.optimizer.build(model.trainable_variables)
    one_step = type(model).train_step

    def train_step(data: Any) -> dict[str, Any]:
        """Train on the samples with these indices; return the metrics since the epoch began."""
        if not (isinstance(data, dict) and data.keys() == {INDICES}):
            return one_step(model, data)
        steps = data[INDICES].shape[0] // batch_size
        indices = tf.reshape(data[INDICES], [steps, batch_size])

        def body(step: tf.Tensor) -> tf.Tensor:
            one_step(model, tuple(tf.gather(part, indices[step]) for part in samples))
            return step + 1

        if steps == 1:
            return one_step(model, tuple(tf.gather(part, indices[0]) for part in samples))
        # The number of steps is a constant, so that XLA knows the trip count and the host does not wait for
        # the condition of each step.
        tf.while_loop(lambda step: step < steps, body, [tf.constant(0)], parallel_iterations=1)
        return model.get_metrics_result()

    train_step.many_steps = True  # type: ignore[attr-defined]
    model.train_step, model.train_function = train_step, None
    model.samples_per_step = batch_size


def _on_device(values: Any) -> tf.Tensor:
    """Return values as fit would take them: a Series as a column, and fractions in Keras' own precision.

    Raises:
        TypeError: they are no array, tensor or table of pandas.
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
        values = values[:, None] if values.ndim == 1 else values
    if not isinstance(values, (np.ndarray, tf.Tensor)):
        raise TypeError(f"many steps per call take arrays, and not {type(values).__name__}")
    tensor = tf.identity(values)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype.is_floating else tensor


def steps_per_call(samples: int, batch_size: int, most: int) -> int:
    """Return the largest number of steps per call, up to `most`, that leaves out 2 % of an epoch at most.

    One that leaves out nothing comes first, if it is more than half of `most`.

    Raises:
        ValueError: there is none.
    """
    sizes = {number: number * batch_size for number in range(most, 0, -1) if number * batch_size <= samples}
    whole = [number for number, size in sizes.items() if samples % size == 0 and 2 * number > most]
    few = [number for number, size in sizes.items() if samples % size <= samples / 50]
    for number in whole + few:
        return number
    raise ValueError(f"batches of {batch_size} would leave out over 2 % of {samples} samples in each epoch")


def shuffled(count: int, size: int) -> tf.data.Dataset:
    """Return endless batches, {INDICES: int32[size]}, of the indices of `count` samples in random order.

    Every pass has each sample once, in a new order; a batch may hold the end of one pass and the beginning of
    the next, so that all batches have the same shape.
    """
    passes = tf.data.Dataset.counter().map(lambda _: tf.random.shuffle(tf.range(count)))
    batches = passes.rebatch(size, drop_remainder=True)
    return batches.map(lambda indices: {INDICES: indices}).prefetch(2)
