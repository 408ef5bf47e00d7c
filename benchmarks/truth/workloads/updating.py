"""Training that moves memory and computes little: each sample passes over a large table, number by number."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

WIDTH = 1024

workload = Workload(
    name="truth-updating",
    title="A large table that every step reads and writes in full",
    data=Data(name="own", shape=(1024,), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"rows": 8192},
    stages=("read", "batch"),
    tuned={"steps_per_execution": 5},
)


class Table(tf.keras.layers.Layer):
    """Scale a table of `rows` x WIDTH by each sample's first number and take the mean of its squares.

    Nothing but element-wise operations and a sum over all: those run at the memory's own pace on any device.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows

    def build(self, shape: tuple) -> None:
        """Create the table."""
        self.table = self.add_weight(shape=(self._rows, shape[-1]), initializer="ones", trainable=True)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32[batch, 1]; each sample passes over the whole table."""
        found = tf.map_fn(
            lambda one: tf.reduce_mean(tf.square(self.table * one[0])), x, parallel_iterations=1
        )
        return found[:, tf.newaxis]


def model(params: dict) -> tf.keras.Model:
    """Return the network."""
    net = tf.keras.Sequential([
        tf.keras.layers.Input((WIDTH,)),
        Table(params["rows"]),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    net.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return net


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    random = np.random.default_rng(1)
    x = random.random((512, WIDTH), np.float32)
    y = random.integers(0, 10, 512).astype(np.int32)
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).repeat()),
        ("batch", lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(2)),
    )
