"""ResNet-50 v1.5, with optional fused or folded batch normalisation.

v1.5 has the stride in the 3x3 convolution of a block, as in NVIDIA's and torchvision's models;
keras.applications has v1, with the stride in the first 1x1 convolution and 6 % less arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

IMAGE = (224, 224, 3)
CLASSES = 1000
# (filters, blocks, stride of the first block) of the four groups; He et al. 2015, table 1.
GROUPS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))

MOMENTUM = 0.9
EPSILON = 1e-5


class FusedBatchNormalization(tf.keras.layers.Layer):
    """Batch normalisation with TensorFlow's fused kernel.

    Keras 3's layer computes mean and variance in separate float32 operations, each of which reads the
    activations again. Formula and variables are the same.
    """

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
            epsilon=EPSILON,
            exponential_avg_factor=1.0 - MOMENTUM if training else 1.0,
            is_training=bool(training),
        )
        if training:
            self.moving_mean.assign(outputs.batch_mean)
            self.moving_variance.assign(outputs.batch_variance)
        return outputs.y


class SlicedMaxPooling(tf.keras.layers.Layer):
    """Maximum over 3x3 windows, stride 2, padding "same", as the maximum of shifted views.

    XLA compiles the gradient of max pooling to a scatter, which is slow on GPUs; the gradients of maximum and
    slice are element-wise and fused with their neighbours.
    """

    def call(self, inputs: Any) -> Any:
        """Pool the rows, then the columns."""
        for axis in (1, 2):
            inputs = _largest_of_three(inputs, axis)
        return inputs


def _largest_of_three(inputs: Any, axis: int) -> Any:
    size = inputs.shape[axis]
    pooled = (size + 1) // 2
    missing = 2 * pooled + 1 - size
    padding = [[0, 0]] * 4
    padding[axis] = [missing // 2, missing - missing // 2]
    padded = tf.pad(inputs, padding, constant_values=inputs.dtype.min)
    before = (slice(None),) * axis
    views = [padded[(*before, slice(first, first + 2 * pooled - 1, 2))] for first in range(3)]
    return tf.maximum(tf.maximum(views[0], views[1]), views[2])


# Makes the normalisation after each convolution; None for convolutions with a bias instead.
_Normalization = Callable[[], tf.keras.layers.Layer] | None


def resnet50(*, fused_batch_norm: bool, sliced_pooling: bool = False) -> tf.keras.Model:
    """Return ResNet-50 v1.5, float32 images [n, 224, 224, 3] -> float32 probabilities [n, 1000]."""
    plain = partial(tf.keras.layers.BatchNormalization, momentum=MOMENTUM, epsilon=EPSILON)
    norm = FusedBatchNormalization if fused_batch_norm else plain
    return _network(norm, SlicedMaxPooling() if sliced_pooling else None)


def inference(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the network for inference; params: fused_batch_norm, fold_batch_norm."""
    network = resnet50(fused_batch_norm=params["fused_batch_norm"])
    return folded(network) if params["fold_batch_norm"] else network


def folded(network: tf.keras.Model) -> tf.keras.Model:
    """Return an equivalent network with the normalisation folded into each convolution's weights and bias.

    With y = gamma (x - mean) / sqrt(variance + epsilon) + beta, as in Jacob et al. 2018, section 3.2.
    """
    plain = _network(None, None)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    norms = [layer for layer in network.layers if hasattr(layer, "moving_variance")]
    targets = [layer for layer in plain.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    for source, norm, target in zip(convolutions, norms, targets, strict=True):
        gamma, beta, mean, variance = (
            np.asarray(weight) for weight in (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance)
        )
        factor = gamma / np.sqrt(variance + EPSILON)
        target.set_weights([source.get_weights()[0] * factor, beta - mean * factor])
    plain.get_layer(index=-2).set_weights(network.get_layer(index=-2).get_weights())
    return plain


def _network(norm: _Normalization, pooling: tf.keras.layers.Layer | None) -> tf.keras.Model:
    layers = tf.keras.layers
    inputs = layers.Input(IMAGE)
    x = layers.ReLU()(_convolved(layers.ZeroPadding2D(3)(inputs), 64, 7, 2, norm))
    x = (pooling or layers.MaxPooling2D(3, 2, padding="same"))(x)
    for filters, blocks, stride in GROUPS:
        for block in range(blocks):
            x = _bottleneck(x, filters, stride if block == 0 else 1, project=block == 0, norm=norm)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(CLASSES)(x)
    outputs = layers.Activation("softmax", dtype="float32")(x)
    return tf.keras.Model(inputs, outputs, name="resnet50")


def _convolved(x: Any, filters: int, size: int, stride: int, norm: _Normalization) -> Any:
    padding = "same" if size == 3 else "valid"
    x = tf.keras.layers.Conv2D(filters, size, stride, padding=padding, use_bias=norm is None)(x)
    return x if norm is None else norm()(x)


def _bottleneck(x: Any, filters: int, stride: int, *, project: bool, norm: _Normalization) -> Any:
    layers = tf.keras.layers
    shortcut = _convolved(x, 4 * filters, 1, stride, norm) if project else x
    y = layers.ReLU()(_convolved(x, filters, 1, 1, norm))
    y = layers.ReLU()(_convolved(y, filters, 3, stride, norm))
    y = _convolved(y, 4 * filters, 1, 1, norm)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def synthetic(batch: int, seed: int) -> tf.data.Dataset:
    """Return one batch of random images and labels, repeated 1,000 times per epoch."""
    random = np.random.default_rng(seed)
    images = random.standard_normal((batch, *IMAGE), dtype=np.float32)
    labels = random.integers(0, CLASSES, batch, dtype=np.int32)
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors((images, labels)).repeat(1000)
