"""Many training steps per call of plain Keras fit, on samples in the device's memory.

Keras launches each step from Python and copies each batch to the device. For a small model that takes longer
than the step itself.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras
import tensorflow as tf


class ManySteps(keras.Model):
    """Train `network` with several steps per call; evaluate and predict as usual.

    Fit it on batches of sample indices, int32[steps * batch_size], as from `shuffled`: each call of the
    compiled step trains that many samples.

    Args:
        x, y: all training samples and labels; copied to the device.
        batch_size: samples per training step.
    """

    def __init__(self, network: keras.Model, x: Any, y: Any, batch_size: int) -> None:
        super().__init__()
        if not network.built:  # its variables must exist before the loop
            network(x[:1])
        self.network = network
        self.built = True
        self.samples = tf.identity(x), tf.identity(y)
        self.batch_size = batch_size

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return the network's outputs."""
        return self.network(inputs, training=training)

    def save(self, *args: Any, **settings: Any) -> None:
        """Save the network: without the samples, and as it is loaded without this class."""
        self.network.save(*args, **settings)

    def save_weights(self, *args: Any, **settings: Any) -> None:
        """Save the network's weights."""
        self.network.save_weights(*args, **settings)

    def load_weights(self, *args: Any, **settings: Any) -> None:
        """Load the network's weights."""
        self.network.load_weights(*args, **settings)

    def compile(self, *args: Any, **settings: Any) -> None:
        """Compile as usual, and create the optimizer's variables, which must exist before the loop.

        The network is compiled, too, so that what saves it saves its training, and it is loaded ready to go on.
        """
        super().compile(*args, **settings)
        self.optimizer.build(self.network.trainable_variables)
        given = inspect.signature(keras.Model.compile).bind(self.network, *args, **settings).arguments
        del given["self"]
        self.network.compile(**{**given, "optimizer": self.optimizer})

    def train_step(self, data: tf.Tensor) -> dict[str, Any]:
        """Train on the samples with these indices; return the metrics since the epoch began."""
        steps = data.shape[0] // self.batch_size
        indices = tf.reshape(data, [steps, self.batch_size])
        one_step = super().train_step

        def body(step: tf.Tensor) -> tf.Tensor:
            one_step(tuple(tf.gather(part, indices[step]) for part in self.samples))
            return step + 1

        if steps == 1:
            return one_step(tuple(tf.gather(part, data) for part in self.samples))
        # The number of steps is a constant, so that XLA knows the trip count and the host does not wait for
        # the condition of each step.
        tf.while_loop(lambda step: step < steps, body, [tf.constant(0)], parallel_iterations=1)
        return self.get_metrics_result()


def steps_per_call(steps: int, most: int) -> int:
    """Return the largest number of steps per call, up to `most`, that leaves out 2 % of an epoch's steps at most."""
    return max(number for number in range(1, max(1, min(steps, most)) + 1) if steps % number <= steps / 50)


def shuffled(count: int, size: int) -> tf.data.Dataset:
    """Return endless batches, int32[size], of the indices of `count` samples in random order.

    Every pass has each sample once, in a new order; a batch may hold the end of one pass and the beginning of
    the next, so that all batches have the same shape.
    """
    passes = tf.data.Dataset.counter().map(lambda _: tf.random.shuffle(tf.range(count)))
    return passes.rebatch(size, drop_remainder=True).prefetch(2)
