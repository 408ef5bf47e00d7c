"""Fashion-MNIST with a deep multilayer perceptron, as a data-science blog trained it in 2021."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads.protocol import Data, Optimization, Workload

workload = Workload(
    name="fashion-mnist-mlp",
    title="Fashion-MNIST, deep multilayer perceptron",
    model="Flatten, 5 x Dense 500 relu, Dense 10 sigmoid",
    data=Data(name="fashion-mnist", shape=(28, 28), classes=10, train=60_000, test=10_000),
    batch_size=32,
    epochs=5,
    optimizer="Adam",
    loss="sparse categorical cross-entropy",
    # Published under Keras 2, which uses XLA only when asked; Keras 3 would turn it on by itself on a GPU.
    params={"jit_compile": False},
    tuned={
        "feed": "resident",
        "jit_compile": True,
        "cpu:steps_per_execution": 50,
        "gpu:steps_per_execution": 200,
    },
    optimizations=(
        Optimization(
            name="xla",
            params={"jit_compile": True},
            why="XLA fuses the optimiser's and the layers' many small operations into few kernels",
        ),
        Optimization(
            name="steps-per-execution",
            params={"jit_compile": True, "steps_per_execution": 50},
            after="opt:xla",
            why="one call from Python now runs 50 steps: launching a step costs more than computing it",
        ),
    ),
    source="Data-science blog, 2021 (times only in pictures)",
    min_accuracy=0.3,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model; the sigmoid before a categorical loss is the article's own."""
    del params
    layers = tf.keras.layers
    built = tf.keras.Sequential(
        [
            layers.Input((28, 28)),
            layers.Flatten(),
            *(layers.Dense(500, activation="relu") for _ in range(5)),
            layers.Dense(10, activation="sigmoid", dtype="float32"),
        ]
    )
    built.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return built
