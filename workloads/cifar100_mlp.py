"""CIFAR-100 with a multilayer perceptron, as Microsoft's Azure blog trained it in 2023."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads.author import Arrays, Split, scaled
from workloads.protocol import Data, Optimization, Published, Workload

workload = Workload(
    name="cifar100-mlp",
    title="CIFAR-100, multilayer perceptron",
    model="Flatten, Dense 512 relu, Dense 256 relu, Dense 100 softmax",
    data=Data(name="cifar100", shape=(32, 32, 3), classes=100, train=50_000, test=10_000),
    batch_size=32,
    epochs=100,
    optimizer="Adam",
    loss="categorical cross-entropy",
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
    published=(
        Published(
            source="Azure blog, 2023",
            system="Standard NC4as T4 v3, its 4 virtual CPUs",
            device="cpu",
            value=1075.0,
            unit="s",
            note="17 min 55 s for 100 epochs",
        ),
        Published(
            source="Azure blog, 2023",
            system="Standard NC4as T4 v3, NVIDIA T4",
            device="gpu",
            value=343.0,
            unit="s",
            note="5 min 43 s for 100 epochs",
        ),
        Published(
            source="Azure blog, 2023",
            system="Standard NC4as T4 v3, T4 over CPU",
            device="gpu",
            value=3.1,
            unit="ratio",
        ),
    ),
    source="Azure blog, 2023",
    min_accuracy=0.1,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    del params
    layers = tf.keras.layers
    built = tf.keras.Sequential(
        [
            layers.Input((32, 32, 3)),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(256, activation="relu"),
            layers.Dense(100, activation="softmax", dtype="float32"),
        ]
    )
    built.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    return built


def data(arrays: Arrays, params: Mapping[str, Any]) -> tuple[Split, Split]:
    """Scale to [0, 1] and make the labels one-hot, float32[n, 100]."""
    (x_train, y_train), (x_test, y_test) = scaled(arrays, params)
    one_hot = tf.keras.utils.to_categorical
    return (x_train, one_hot(y_train, 100)), (x_test, one_hot(y_test, 100))
