"""Cats and dogs: five networks on JPEG files that Keras' Python loader reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from workloads.components import augment, image_files
from workloads.protocol import Data, Published, Workload

# As in the article: 4,000 images of each class for training, 1,000 for testing.
DATA = Data(
    name="cats-and-dogs",
    kind="jpeg",
    shape=(360, 404, 3),
    classes=2,
    class_names=("cat", "dog"),
    train=8000,
    test=2000,
)
SOURCE = "Hosting blog"
# The blog's systems; a `ratio` is one system over another.
V100: dict[str, Any] = {"source": SOURCE, "system": "Tesla V100", "device": "gpu"}
XEONS: dict[str, Any] = {"source": SOURCE, "system": "2x Xeon Silver 4110", "device": "cpu"}
VM: dict[str, Any] = {**XEONS, "system": "VirtualBox VM on 2x Xeon Silver 4110"}
V100_OVER_XEONS: dict[str, Any] = {**V100, "system": "Tesla V100 over 2x Xeon Silver 4110"}
ACCURACY = "the blog lists 80, 84 and 90 % for its three variants in this order"

# Published with Keras 2, which uses XLA only on request; Keras 3 enables it on GPUs by default.
PARAMS = {
    "jit_compile": False,
    "side": 64,
    "augment": True,
    "loader": "keras",
    "workers": 1,
    "queue_size": 10,
    "storage": "disk",
    "cache": False,
    "preprocess": "host",
}
TUNED = {
    "feed": "resident",
    "loader": "tfdata",
    "preprocess": "device",
    "cpu:steps_per_execution": 4,
    "gpu:jit_compile": True,
    "gpu:steps_per_execution": 50,
}
STAGES = ("read", "decode", "resize", "augment", "batch", "prefetch")
OPTIMIZATIONS = {
    "workers-4": {"workers": 4},
    "workers-4-batch-64": {"workers": 4, "batch_size": 64},  # the article's own remedy
    "ram": {"storage": "ram"},
    "no-augment": {"augment": False},
    "tfdata": {"loader": "tfdata"},
    "cache": {"loader": "tfdata", "cache": True},
    "device-augment": {"loader": "tfdata", "cache": True, "preprocess": "device"},
}

# Shared by all five.
SHARED: dict[str, Any] = {
    "data": DATA,
    "batch_size": 32,
    "epochs": 25,
    "samples_per_epoch": 256_000,  # steps_per_epoch=8000, as published
    "optimizer": "Adam",
    "loss": "binary cross-entropy",
    "tuned": TUNED,
    "stages": STAGES,
    "optimizations": OPTIMIZATIONS,
    "source": SOURCE,
    "min_accuracy": 0.7,
}

small = Workload(
    **SHARED,
    name="cats-dogs",
    title="Cats and dogs, small CNN on JPEG files",
    model="2 x (Conv 32 3x3 relu, MaxPool), Flatten, Dense 128 relu, Dense 1 sigmoid; 64x64 pixels",
    params=PARAMS,
    published=(
        Published(**VM, value=47.0, unit="samples/s"),
        Published(
            **VM,
            value=64.0,
            unit="samples/s",
            variant="opt:workers-4-batch-64",
            note="with 4 workers and batch 64",
        ),
        Published(
            **V100_OVER_XEONS, value=4.0, unit="ratio", note="over bare metal; the blog gives one digit"
        ),
        Published(**V100, value=0.0, upto=0.1, unit="utilisation"),
        Published(
            **V100, value=3.0, unit="gain", note="about 3x, by workers, batch, queue size and RAM disk only"
        ),
    ),
    builder="small_model",
)

three_convolutions = Workload(
    **SHARED,
    name="cats-dogs-3conv",
    title="Cats and dogs, third convolution",
    model="2 x (Conv 32 3x3 relu, MaxPool), Conv 64 3x3 relu, MaxPool, Flatten, Dense 128 relu, "
    "Dense 1 sigmoid; 64x64 pixels",
    params=PARAMS,
    published=(Published(**V100, value=0.8, unit="accuracy", note=ACCURACY),),
    suite="extra",
    builder="three_convolutions_model",
)

dropout = Workload(
    **SHARED,
    name="cats-dogs-dropout",
    title="Cats and dogs, third convolution and dropout",
    model="2 x (Conv 32 3x3 relu, MaxPool), Conv 64 3x3 relu, MaxPool, Flatten, Dense 128 relu, "
    "Dropout 0.5, Dense 1 sigmoid; 64x64 pixels",
    params=PARAMS,
    published=(
        Published(
            **V100,
            value=425.0,
            unit="samples/s",
            note="with shear, zoom and flip, after its tuning of the loader",
        ),
        Published(
            **V100,
            value=533.0,
            unit="samples/s",
            variant="opt:no-augment",
            note="without shear, zoom and flip",
        ),
        Published(**V100, value=0.84, unit="accuracy", note=ACCURACY),
        Published(**V100, value=0.9, unit="accuracy", variant="opt:no-augment", note=ACCURACY),
    ),
    suite="extra",
    builder="dropout_model",
)

larger = Workload(
    **SHARED,
    name="cats-dogs-128",
    title="Cats and dogs at 128x128, 64 filters",
    model="3 x (Conv 64 3x3 relu, MaxPool), Flatten, Dense 128 relu, Dropout 0.5, Dense 1 sigmoid; "
    "128x128 pixels",
    params={**PARAMS, "side": 128},
    published=(
        Published(**V100, value=333.0, unit="samples/s"),
        Published(**V100, value=0.94, unit="accuracy"),
        Published(**V100, value=0.5, unit="utilisation", note="about half"),
        Published(**V100_OVER_XEONS, value=23.0, unit="ratio"),
    ),
    suite="extra",
    builder="larger_model",
)

deep = Workload(
    **SHARED,
    name="cats-dogs-deep",
    title="Cats and dogs, 32 convolutions",
    model="32 x (Conv 3x3, BatchNorm, ReLU) of 32 to 256 filters in 5 groups, MaxPool after each, "
    "GlobalAveragePooling, Dense 1 sigmoid; 128x128 pixels",
    # A step of 32 takes many seconds on a CPU.
    params={**PARAMS, "side": 128, "cpu:batch_size": 8},
    published=(
        Published(
            **XEONS,
            value=3.0,
            unit="samples/s",
            note="one digit; the blog says 30 and more convolutions, not which",
        ),
        Published(**V100_OVER_XEONS, value=100.0, unit="ratio", note="about 100"),
        Published(**V100, value=1.0, unit="utilisation"),
    ),
    suite="extra",
    builder="deep_model",
)

workloads = (small, three_convolutions, dropout, larger, deep)

dataset = image_files.image_stages
in_memory = image_files.in_memory


def _network(params: Mapping[str, Any], *, filters: Sequence[int], dropout: float = 0.0) -> tf.keras.Model:
    """Return the compiled network: a convolution and pooling for each of `filters`, Dense 128, sigmoid.

    Args:
        params: side; preprocess: with "device" the model scales and augments uint8 images itself.
        dropout: rate before the last layer.
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


def _deep_network(params: Mapping[str, Any], groups: Sequence[tuple[int, int]]) -> tf.keras.Model:
    """Return the compiled deep network: groups of (convolutions, filters), each pooled, then a sigmoid.

    Uses batch normalisation after each convolution, without which so deep a network learns nothing.
    """
    layers = tf.keras.layers
    stack: list[Any] = list(_inputs(params))
    for count, filters in groups:
        for _ in range(count):
            stack.append(layers.Conv2D(filters, 3, padding="same", use_bias=False))
            stack.append(layers.BatchNormalization(momentum=0.9))  # converges within a short run
            stack.append(layers.ReLU())
        stack.append(layers.MaxPooling2D())
    stack.append(layers.GlobalAveragePooling2D())
    stack.append(layers.Dense(1, activation="sigmoid", dtype="float32"))
    return _compiled(tf.keras.Sequential(stack))


def _inputs(params: Mapping[str, Any]) -> tuple[Any, ...]:
    shape = (params["side"], params["side"], 3)
    if params["preprocess"] == "host":
        return (tf.keras.layers.Input(shape),)
    return (
        tf.keras.layers.Input(shape, dtype="uint8"),
        augment.OnDevice(augment.preprocessed, random=params["augment"]),
    )


def _compiled(model: tf.keras.Model) -> tf.keras.Model:
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


# As in the blog, except that it does not list the layers of the deep network.
small_model = partial(_network, filters=(32, 32))
three_convolutions_model = partial(_network, filters=(32, 32, 64))
dropout_model = partial(_network, filters=(32, 32, 64), dropout=0.5)
larger_model = partial(_network, filters=(64, 64, 64), dropout=0.5)
deep_model = partial(_deep_network, groups=((6, 32), (6, 64), (7, 128), (7, 256), (6, 256)))
