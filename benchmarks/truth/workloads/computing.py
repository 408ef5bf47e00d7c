"""Real training: matrix products, tiny steps, a large table, or little computation on large batches."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

WIDTH, STRIDE = 1024, 64

workload = Workload(
    name="truth-computing",
    title="Dense layers on samples in memory, a table of `rows`, or images of `side` pixels",
    data=Data(name="own", shape=(32,), classes=10, train=0, test=0),
    batch_size=256,
    epochs=1,
    params={"width": 1024, "depth": 3, "rows": 0, "side": 0},
    stages=("read", "batch"),
    tuned={"steps_per_execution": 5},
)


class Table(tf.keras.layers.Layer):
    """Scale a table of `rows` x WIDTH by each sample's first number and take the mean of its squares.

    Only element-wise operations and a sum, which are limited by memory bandwidth on any device.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows

    def build(self, shape: tuple) -> None:
        """Create the table."""
        del shape
        self.table = self.add_weight(shape=(self._rows, WIDTH), initializer="ones", trainable=True)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32[batch, 1]; each sample reads the whole table."""
        means = tf.map_fn(
            lambda sample: tf.reduce_mean(tf.square(self.table * sample[0])), x, parallel_iterations=1
        )
        return means[:, tf.newaxis]


def model(params: dict) -> tf.keras.Model:
    """Return the network; for images it reads every 64th pixel of each row and column."""
    layers = tf.keras.layers
    if params["rows"]:
        inner = [Table(params["rows"])]
    elif params["side"]:
        inner = [layers.Conv2D(16, 1, strides=STRIDE, activation="relu"), layers.Flatten()]
    else:
        inner = [layers.Dense(params["width"], activation="relu") for _ in range(params["depth"])]
    net = tf.keras.Sequential([layers.Input(_shape(params)), *inner, layers.Dense(10, activation="softmax")])
    net.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return net


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline; for images it repeats one batch, which costs the host nothing."""
    del data_dir
    batch, random = params["batch_size"], np.random.default_rng(1)
    if params["side"]:
        x, y = np.zeros((batch, *_shape(params)), np.float32), np.zeros(batch, np.int32)
        ready = tf.data.Dataset.from_tensors((x, y)).repeat()
        return (("read", lambda: ready), ("batch", lambda before: before))
    x = random.random((8192, *_shape(params)), np.float32)
    y = random.integers(0, 10, 8192).astype(np.int32)
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).repeat()),
        ("batch", lambda before: before.batch(batch, drop_remainder=True).prefetch(2)),
    )


def _shape(params: dict) -> tuple[int, ...]:
    return (params["side"], params["side"], 4) if params["side"] else (32,)
