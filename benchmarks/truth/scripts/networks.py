"""Real networks for the cases on a GPU."""

from __future__ import annotations

import tensorflow as tf

layers = tf.keras.layers


def convolutional(width: int) -> tf.keras.Model:
    """Return five convolutions with `width` filters for pictures of any size, 10 classes."""
    same = (layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(4))
    return tf.keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Conv2D(width, 3, strides=2, activation="relu"),
            *same,
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def dense(width: int) -> tf.keras.Model:
    """Return four dense layers of `width` units, 10 classes."""
    inner = (layers.Dense(width, activation="relu") for _ in range(4))
    return tf.keras.Sequential([*inner, layers.Dense(10, activation="softmax")])
