"""Layers that are faster on GPUs than Keras' own: fused batch normalisation, max pooling by slices."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import tensorflow as tf


class FusedBatchNormalization(keras.layers.Layer):
    """Batch normalisation with TensorFlow's fused kernel.

    Keras 3's layer computes mean and variance in separate float32 operations, each of which reads the
    activations again. Formula and variables are the same.
    """

    def __init__(self, momentum: float = 0.9, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, shape: Any) -> None:
        """Create the four float32 vectors without autocast, because the kernel does not accept float16."""
        vector = partial(self.add_weight, shape=(shape[-1],), dtype="float32", autocast=False)
        self.gamma = vector(name="gamma", initializer="ones")
        self.beta = vector(name="beta", initializer="zeros")
        self.moving_mean = vector(name="moving_mean", initializer="zeros", trainable=False)
        self.moving_variance = vector(name="moving_variance", initializer="ones", trainable=False)
        super().build(shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Normalise over all but the last axis; in training also update the moving averages."""
        outputs = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=tf.convert_to_tensor(self.gamma),
            offset=tf.convert_to_tensor(self.beta),
            mean=tf.convert_to_tensor(self.moving_mean),
            variance=tf.convert_to_tensor(self.moving_variance),
            epsilon=self.epsilon,
            exponential_avg_factor=1.0 - self.momentum if training else 1.0,
            is_training=bool(training),
        )
        if training:
            self.moving_mean.assign(outputs.batch_mean)
            self.moving_variance.assign(outputs.batch_variance)
        return outputs.y


class SlicedMaxPooling(keras.layers.Layer):
    """Maximum over 3x3 windows, stride 2, padding "same", as the maximum of shifted views.

    XLA compiles the gradient of max pooling to a scatter, which is slow on GPUs; the gradients of maximum and
    slice are element-wise and fused with their neighbours.
    """

    def call(self, inputs: Any) -> Any:
        """Pool the rows, then the columns."""
        for axis in (1, 2):
            inputs = largest_of_three(inputs, axis)
        return inputs


def largest_of_three(inputs: Any, axis: int) -> Any:
    """Return the maximum over windows of three with stride 2 along an axis."""
    size = inputs.shape[axis]
    pooled = (size + 1) // 2
    missing = 2 * pooled + 1 - size
    padding = [[0, 0]] * 4
    padding[axis] = [missing // 2, missing - missing // 2]
    padded = tf.pad(inputs, padding, constant_values=inputs.dtype.min)
    before = (slice(None),) * axis
    views = [padded[(*before, slice(first, first + 2 * pooled - 1, 2))] for first in range(3)]
    return tf.maximum(tf.maximum(views[0], views[1]), views[2])
