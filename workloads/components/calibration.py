"""Give the batch normalisation of an untrained network statistics, so that a head on it can learn."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

SEED, IMAGES, CELLS = 7, 32, 8


def calibrate(backbone: keras.Model) -> None:
    """Set the moving averages of all normalisation layers from smooth noise.

    In an untrained network the signal fades from layer to layer.
    """
    noise = np.random.default_rng(SEED).normal(0, 0.6, (IMAGES, CELLS, CELLS, 3)).astype("float32")
    images = tf.clip_by_value(tf.image.resize(noise, backbone.input_shape[1:3]), -1.0, 1.0)
    momenta = [(layer, layer.momentum) for layer in normalizations(backbone)]
    for layer, _ in momenta:
        layer.momentum = 0.0
    backbone(images, training=True)
    for layer, momentum in momenta:
        layer.momentum = momentum


def normalizations(backbone: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the batch normalisation layers."""
    return [layer for layer in backbone.layers if isinstance(layer, keras.layers.BatchNormalization)]
