"""Training on large batches that lie ready in the host's memory: each has to be copied to the device."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

SIDE = 1024

workload = Workload(
    name="truth-copying",
    title="Large batches in the host's memory, a small network on the device",
    data=Data(name="own", shape=(1024, 1024, 4), classes=10, train=0, test=0),
    batch_size=32,
    epochs=1,
    stages=("read",),
    tuned={"steps_per_execution": 2},
)


def model(params: dict) -> tf.keras.Model:
    """Return the network: it looks at every 64th pixel of each row and column."""
    del params
    net = tf.keras.Sequential([
        tf.keras.layers.Input((SIDE, SIDE, 4)),
        tf.keras.layers.Conv2D(16, 1, strides=64, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    net.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return net


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline: the same batches again and again, which costs the host nothing."""
    del data_dir
    x = np.zeros((params["batch_size"], SIDE, SIDE, 4), np.float32)
    y = np.zeros(params["batch_size"], np.int32)
    return (("read", lambda: tf.data.Dataset.from_tensors((x, y)).repeat()),)
