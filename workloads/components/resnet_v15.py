"""ResNet-50 v1.5, which has the stride in the 3x3 convolution of a block, as in NVIDIA's and torchvision's models.

keras.applications has v1, with the stride in the first 1x1 convolution and 6 % less arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers

IMAGE = (224, 224, 3)
CLASSES = 1000
# (filters, blocks, stride of the first block) of the four groups; He et al. 2015, table 1.
GROUPS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
MOMENTUM, EPSILON = 0.9, 1e-5

# Makes the normalisation after each convolution; None for convolutions with a bias instead.
Normalization = Callable[[], layers.Layer] | None
batch_normalization = partial(layers.BatchNormalization, momentum=MOMENTUM, epsilon=EPSILON)


def resnet50(
    normalization: Normalization = batch_normalization, pooling: layers.Layer | None = None
) -> keras.Model:
    """Return the network, float32 images [n, 224, 224, 3] -> float32 probabilities [n, 1000].

    Args:
        normalization: makes the layer after each convolution.
        pooling: 3x3 max pooling with stride 2, Keras' by default.
    """
    inputs = layers.Input(IMAGE)
    x = layers.ReLU()(convolved(layers.ZeroPadding2D(3)(inputs), 64, 7, 2, normalization))
    x = (pooling or layers.MaxPooling2D(3, 2, padding="same"))(x)
    for filters, blocks, stride in GROUPS:
        for block in range(blocks):
            x = bottleneck(x, filters, stride if block == 0 else 1, block == 0, normalization)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(CLASSES)(x)
    outputs = layers.Activation("softmax", dtype="float32")(x)
    return keras.Model(inputs, outputs, name="resnet50")


def convolved(x: Any, filters: int, size: int, stride: int, normalization: Normalization) -> Any:
    """Return a convolution with its normalisation or bias."""
    padding = "same" if size == 3 else "valid"
    x = layers.Conv2D(filters, size, stride, padding=padding, use_bias=normalization is None)(x)
    return normalization()(x) if normalization else x


def bottleneck(x: Any, filters: int, stride: int, project: bool, normalization: Normalization) -> Any:
    """Return a residual block of 1x1, 3x3 and 1x1 convolutions."""
    shortcut = convolved(x, 4 * filters, 1, stride, normalization) if project else x
    y = layers.ReLU()(convolved(x, filters, 1, 1, normalization))
    y = layers.ReLU()(convolved(y, filters, 3, stride, normalization))
    y = convolved(y, 4 * filters, 1, 1, normalization)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def folded(network: keras.Model) -> keras.Model:
    """Return an equivalent network with the normalisation folded into each convolution's weights and bias.

    With y = gamma (x - mean) / sqrt(variance + epsilon) + beta, as in Jacob et al. 2018, section 3.2.
    """
    plain = resnet50(normalization=None)
    convolutions = [layer for layer in network.layers if isinstance(layer, layers.Conv2D)]
    norms = [layer for layer in network.layers if isinstance(layer, layers.BatchNormalization)]
    targets = [layer for layer in plain.layers if isinstance(layer, layers.Conv2D)]
    for source, norm, target in zip(convolutions, norms, targets, strict=True):
        gamma, beta, mean, variance = (
            np.asarray(weight) for weight in (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance)
        )
        factor = gamma / np.sqrt(variance + EPSILON)
        target.set_weights([source.get_weights()[0] * factor, beta - mean * factor])
    plain.get_layer(index=-2).set_weights(network.get_layer(index=-2).get_weights())
    return plain
