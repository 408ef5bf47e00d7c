"""Random shear, zoom and flips of images, as in Keras' ImageDataGenerator.

The same random maps can be applied to single images on the host (`warp_one`) or to batches with operations
that XLA compiles for any device (`warp_batch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# As published: shear_range=0.2 (degrees), zoom_range=0.2, horizontal_flip=True.
SHEAR_DEGREES = 0.2
ZOOM = 0.2
WHITE = 255.0


def random_maps(count: Any, height: int, width: int) -> Any:
    """Return float32[count, 6], an affine map from new to old pixel coordinates for each image.

    A row (a, b, c, d, e, f) means x_old = a x + b y + c and y_old = d x + e y + f, in pixels.
    """
    zoom = tf.random.uniform([2, count], 1 - ZOOM, 1 + ZOOM)
    limit = math.radians(SHEAR_DEGREES)
    shear = tf.random.uniform([count], -limit, limit)
    flip = tf.where(tf.random.uniform([count]) < 0.5, -1.0, 1.0)
    a, b = flip * zoom[0], -tf.sin(shear) * zoom[1]
    d, e = tf.zeros_like(a), tf.cos(shear) * zoom[1]
    # All transformations are centred.
    x, y = (width - 1) / 2, (height - 1) / 2
    return tf.stack([a, b, x - a * x - b * y, d, e, y - d * x - e * y], axis=1)


def warp_one(image: Any, pixel_map: Any) -> Any:
    """Apply one map, float32[6], to one image, float32[height, width, channels]; edges are stretched."""
    transform = tf.concat([pixel_map, [0.0, 0.0]], axis=0)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=transform[None],
        output_shape=tf.shape(image)[:2],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="NEAREST",
    )[0]


def warp_batch(images: Any, maps: Any) -> Any:
    """Apply maps, float32[n, 6], to float32[n, height, width, channels]; edges are stretched."""
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


def preprocessed(images: Any, *, random: bool) -> Any:
    """Scale uint8[n, height, width, channels] to 0..1; with `random`, also shear, zoom and flip."""
    images = tf.cast(images, tf.float32) / WHITE
    if not random:
        return images
    _, height, width, _ = images.shape
    return warp_batch(images, random_maps(tf.shape(images)[0], height, width))


class OnDevice(tf.keras.layers.Layer):
    """Preprocess uint8 batches on the model's device.

    Args:
        prepare: (uint8, random) -> float32.
        random: augment during training.
    """

    def __init__(self, prepare: Callable[..., Any], *, random: bool) -> None:
        super().__init__()
        self._prepare = prepare
        self._random = random

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return the preprocessed batch in the layer's compute dtype."""
        return tf.cast(self._prepare(inputs, random=training and self._random), self.compute_dtype)
