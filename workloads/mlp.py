"""Multilayer perceptrons on small images, as published in 2021 and 2023."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from workloads.components.rescaling import unit_range
from workloads.protocol import Arrays, Data, Published, Split, Workload

# Published with Keras 2, which uses XLA only on request; Keras 3 enables it on GPUs by default.
PARAMS = {"jit_compile": False}
TUNED = {
    "feed": "resident",
    "jit_compile": True,
    "cpu:steps_per_execution": 50,
    "gpu:steps_per_execution": 200,
}
OPTIMIZATIONS = {
    "xla": {"jit_compile": True},
    "steps-per-execution": {"jit_compile": True, "steps_per_execution": 50},
}
BLOG = "Data-science blog, 2021 (times only in pictures)"
AZURE: dict[str, Any] = {"source": "Azure blog, 2023"}
# Shared by all three.
SHARED: dict[str, Any] = {"batch_size": 32, "optimizations": OPTIMIZATIONS}

cifar100 = Workload(
    **SHARED,
    name="cifar100-mlp",
    title="CIFAR-100, multilayer perceptron",
    model="Flatten, Dense 512 relu, Dense 256 relu, Dense 100 softmax",
    data=Data(name="cifar100", shape=(32, 32, 3), classes=100, train=50_000, test=10_000),
    epochs=100,
    optimizer="Adam",
    loss="categorical cross-entropy",
    params={**PARAMS, "one_hot": True},
    tuned=TUNED,
    published=(
        Published(**AZURE, system="NC4as T4 v3, its 4 vCPUs", device="cpu", value=1075.0, unit="s"),
        Published(**AZURE, system="NC4as T4 v3, NVIDIA T4", device="gpu", value=343.0, unit="s"),
        Published(**AZURE, system="NC4as T4 v3, T4 over CPU", device="gpu", value=3.1, unit="ratio"),
    ),
    **AZURE,
    min_accuracy=0.1,
    builder="cifar100_model",
)

cifar10 = Workload(
    **SHARED,
    name="cifar10-mlp",
    title="CIFAR-10, wide multilayer perceptron",
    model="Flatten, Dense 3000 relu, Dense 1000 relu, Dense 10 sigmoid",
    data=Data(name="cifar10", shape=(32, 32, 3), classes=10, train=50_000, test=10_000),
    epochs=10,
    optimizer="SGD",
    loss="sparse categorical cross-entropy",
    params=PARAMS,
    # On a CPU XLA does not speed up the matrix products of these 12 million weights.
    tuned={
        "feed": "resident",
        "gpu:jit_compile": True,
        "cpu:steps_per_execution": 10,
        "gpu:steps_per_execution": 200,
    },
    source=BLOG,
    min_accuracy=0.3,
    builder="cifar10_model",
)

fashion_mnist = Workload(
    **SHARED,
    name="fashion-mnist-mlp",
    title="Fashion-MNIST, deep multilayer perceptron",
    model="Flatten, 5 x Dense 500 relu, Dense 10 sigmoid",
    data=Data(name="fashion-mnist", shape=(28, 28), classes=10, train=60_000, test=10_000),
    epochs=5,
    optimizer="Adam",
    loss="sparse categorical cross-entropy",
    params=PARAMS,
    tuned=TUNED,
    source=BLOG,
    min_accuracy=0.3,
    builder="fashion_mnist_model",
)

workloads = (cifar100, cifar10, fashion_mnist)


def data(arrays: Arrays, params: Mapping[str, Any]) -> tuple[Split, Split]:
    """Scale to [0, 1]; with `one_hot`, make the labels float32[n, 100] as in the article."""
    (x_train, y_train), (x_test, y_test) = unit_range(arrays, params)
    if params.get("one_hot"):
        one_hot = tf.keras.utils.to_categorical
        y_train, y_test = one_hot(y_train, 100), one_hot(y_test, 100)
    return (x_train, y_train), (x_test, y_test)


def _model(
    params: Mapping[str, Any],
    *,
    shape: Sequence[int],
    hidden: Sequence[int],
    output: tuple[int, str],
    optimizer: str,
    loss: str = "sparse_categorical_crossentropy",
) -> tf.keras.Model:
    """Return the compiled model; the articles' sigmoid before a categorical loss is kept."""
    del params
    layers = tf.keras.layers
    units, activation = output
    built = tf.keras.Sequential(
        [
            layers.Input(shape),
            layers.Flatten(),
            *(layers.Dense(count, activation="relu") for count in hidden),
            layers.Dense(units, activation=activation, dtype="float32"),
        ]
    )
    built.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    return built


cifar100_model = partial(
    _model, shape=(32, 32, 3), hidden=(512, 256), output=(100, "softmax"), optimizer="adam",
    loss="categorical_crossentropy",
)  # fmt: skip
cifar10_model = partial(
    _model, shape=(32, 32, 3), hidden=(3000, 1000), output=(10, "sigmoid"), optimizer="sgd"
)
fashion_mnist_model = partial(
    _model, shape=(28, 28), hidden=(500,) * 5, output=(10, "sigmoid"), optimizer="adam"
)
