"""The cats-and-dogs networks, which differ in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import augment


def network(params: Mapping[str, Any], *, filters: Sequence[int], dropout: float = 0.0) -> tf.keras.Model:
    """Return the compiled network: a convolution and a pooling for each of `filters`, Dense 128, sigmoid.

    Args:
        params: side; preprocess: with "device" the model takes bytes, scales and augments them itself.
        dropout: before the last layer.
    """
    layers = tf.keras.layers
    built = tf.keras.Sequential(
        [
            *_inputs(params),
            *(
                layer
                for count in filters
                for layer in (layers.Conv2D(count, 3, activation="relu"), layers.MaxPooling2D())
            ),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            *([layers.Dropout(dropout)] if dropout else []),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    return _compiled(built)


def deep_network(params: Mapping[str, Any], *, groups: Sequence[tuple[int, int]]) -> tf.keras.Model:
    """Return the compiled deep network: groups of (convolutions, filters), each pooled, then a sigmoid.

    Each convolution is normalised: so many plain ones in a row learn nothing.
    """
    layers = tf.keras.layers
    stack: list[Any] = list(_inputs(params))
    for count, filters in groups:
        for _ in range(count):
            stack.append(layers.Conv2D(filters, 3, padding="same", use_bias=False))
            stack.append(layers.BatchNormalization())
            stack.append(layers.ReLU())
        stack.append(layers.MaxPooling2D())
    stack.append(layers.GlobalAveragePooling2D())
    stack.append(layers.Dense(1, activation="sigmoid", dtype="float32"))
    return _compiled(tf.keras.Sequential(stack))


def _inputs(params: Mapping[str, Any]) -> tuple[Any, ...]:
    shape = (params["side"], params["side"], 3)
    if params["preprocess"] == "host":
        return (tf.keras.layers.Input(shape),)
    return (tf.keras.layers.Input(shape, dtype="uint8"), augment.Augment(random=params["augment"]))


def _compiled(model: tf.keras.Model) -> tf.keras.Model:
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model
