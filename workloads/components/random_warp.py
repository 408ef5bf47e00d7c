"""Random shear, zoom and flips of image batches on the model's device, as in Keras' ImageDataGenerator."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf


class RandomWarp(keras.layers.Layer):
    """Warp each image at random in training; edges are stretched.

    Args:
        shear: maximum angle in degrees.
        zoom: maximum relative change of each axis.
    """

    def __init__(self, shear: float = 0.2, zoom: float = 0.2) -> None:
        super().__init__()
        self.shear = shear
        self.zoom = zoom

    def call(self, images: Any, training: bool = False) -> Any:
        """Return float images [n, height, width, channels], warped in training."""
        return warp(images, self.random_maps(images)) if training else images

    def random_maps(self, images: Any) -> Any:
        """Return float32[n, 6], an affine map from new to old pixel coordinates for each image.

        A row (a, b, c, d, e, f) means x_old = a x + b y + c and y_old = d x + e y + f, in pixels.
        """
        count = tf.shape(images)[0]
        _, height, width, _ = images.shape
        zoom = tf.random.uniform([2, count], 1 - self.zoom, 1 + self.zoom)
        limit = math.radians(self.shear)
        shear = tf.random.uniform([count], -limit, limit)
        flip = tf.where(tf.random.uniform([count]) < 0.5, -1.0, 1.0)
        a, b = flip * zoom[0], -tf.sin(shear) * zoom[1]
        d, e = tf.zeros_like(a), tf.cos(shear) * zoom[1]
        # All transformations are centred.
        x, y = (width - 1) / 2, (height - 1) / 2
        return tf.stack([a, b, x - a * x - b * y, d, e, y - d * x - e * y], axis=1)


def warp(images: Any, maps: Any) -> Any:
    """Apply maps, float32[n, 6], to images [n, height, width, channels] with bilinear interpolation.

    Uses operations that XLA compiles, unlike TensorFlow's ImageProjectiveTransform.
    """
    _, height, width, channels = images.shape
    x, y = (tf.cast(tf.range(side), tf.float32) for side in (width, height))
    a, b, c, d, e, f = (part[:, None, None] for part in tf.unstack(maps, axis=1))
    old_x = tf.clip_by_value(a * x[None, None, :] + b * y[None, :, None] + c, 0.0, width - 1.0)
    old_y = tf.clip_by_value(d * x[None, None, :] + e * y[None, :, None] + f, 0.0, height - 1.0)
    left, top = tf.floor(old_x), tf.floor(old_y)
    right, bottom = tf.minimum(left + 1, width - 1.0), tf.minimum(top + 1, height - 1.0)
    part_x, part_y = (old_x - left)[..., None], (old_y - top)[..., None]
    flat = tf.reshape(images, [-1, height * width, channels])

    def at(column: Any, row: Any) -> Any:
        indices = tf.reshape(tf.cast(row * width + column, tf.int32), [-1, height * width])
        return tf.reshape(tf.gather(flat, indices, batch_dims=1), [-1, height, width, channels])

    upper = (1 - part_x) * at(left, top) + part_x * at(right, top)
    lower = (1 - part_x) * at(left, bottom) + part_x * at(right, bottom)
    return (1 - part_y) * upper + part_y * lower
