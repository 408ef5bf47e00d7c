"""Training that computes for real: products of matrices (arithmetic), or tiny steps (their start)."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

workload = Workload(
    name="truth-computing",
    title="A stack of dense layers on samples in memory",
    data=Data(name="own", shape=(32,), classes=10, train=0, test=0),
    batch_size=256,
    epochs=1,
    params={"width": 1024, "depth": 3, "optimizer": "sgd"},
    stages=("read", "batch"),
    tuned={"steps_per_execution": 5},
)

INPUT = 32


def model(params: dict) -> tf.keras.Model:
    """Return the network."""
    net = tf.keras.Sequential([
        tf.keras.layers.Input((INPUT,)),
        *(tf.keras.layers.Dense(params["width"], activation="relu") for _ in range(params["depth"])),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    net.compile(params["optimizer"], "sparse_categorical_crossentropy", jit_compile=False)
    return net


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    random = np.random.default_rng(1)
    x = random.random((8192, INPUT), np.float32)
    y = random.integers(0, 10, 8192).astype(np.int32)
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).repeat()),
        ("batch", lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(2)),
    )
