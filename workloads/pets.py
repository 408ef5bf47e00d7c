"""What the cats-and-dogs workloads share: their declarations' common parts, and their networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import augment
from workloads.protocol import Change, Data, Optimization

# The article's folders: 4,000 pictures of each class for training, 1,000 for testing.
DATA = Data(
    name="cats-and-dogs",
    kind="jpeg",
    shape=(360, 404, 3),
    classes=2,
    class_names=("cat", "dog"),
    train=8000,
    test=2000,
)
SAMPLES_PER_EPOCH = 256_000  # steps_per_epoch=8000, as published
SOURCE = "Hosting blog"
V100 = "Tesla V100"
XEONS = "2x Xeon Silver 4110"
V100_OVER_XEONS = "Tesla V100 over 2x Xeon Silver 4110"
VM = "VirtualBox VM on 2x Xeon Silver 4110"

# Published under Keras 2, which uses XLA only when asked; Keras 3 would turn it on by itself on a GPU.
PARAMS = {
    "jit_compile": False,
    "side": 64,
    "augment": True,
    "loader": "keras",
    "workers": 1,
    "queue_size": 10,
    "multiprocessing": False,
    "storage": "disk",
    "decode_ratio": 1,
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
CHANGES = (
    Change(
        what="feed",
        before="fit",
        after="resident",
        why="every file is read and decoded once, before training; the pixels then stay on the device",
    ),
    Change(
        what="preprocess",
        before="host",
        after="device",
        why="bytes are scaled, sheared, zoomed and mirrored on the device, a whole batch at once",
    ),
    Change(
        what="loader",
        before="keras",
        after="tfdata",
        why="tf.data decodes on all CPUs without Python's lock",
    ),
)
STAGES = ("read", "decode", "resize", "augment", "batch", "prefetch")
OPTIMIZATIONS = (
    Optimization(
        name="workers-4",
        params={"workers": 4},
        why="four threads load batches; Python's lock lets them overlap only while Pillow decodes",
    ),
    Optimization(
        name="workers-4-batch-64",
        params={"workers": 4, "batch_size": 64},
        after="opt:workers-4",
        why="the article's own remedy: larger batches beside more workers",
    ),
    Optimization(
        name="ram",
        params={"storage": "ram"},
        why="the files lie in memory instead of on a disk: a RAM disk, as the article tried",
    ),
    Optimization(
        name="no-augment",
        params={"augment": False},
        why="no shear, zoom and flip, which SciPy computes picture by picture",
    ),
    Optimization(
        name="tfdata",
        params={"loader": "tfdata"},
        why="tf.data reads, decodes and augments on all CPUs without Python's lock",
    ),
    Optimization(
        name="reduced-decode",
        params={"loader": "tfdata", "decode_ratio": 2},
        after="opt:tfdata",
        why="libjpeg decodes at half the size, which spares most of the inverse transform",
    ),
    Optimization(
        name="cache",
        params={"loader": "tfdata", "cache": True},
        after="opt:tfdata",
        why="files are decoded once, before training; only augmentation is left for each step",
    ),
    Optimization(
        name="device-augment",
        params={"loader": "tfdata", "cache": True, "preprocess": "device"},
        after="opt:cache",
        why="the host hands over bytes, a quarter of the traffic; the device augments whole batches",
    ),
)


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
            stack.append(layers.BatchNormalization(momentum=0.9))  # settles within a short run
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
