"""Training that loses time in Python: eager steps, callbacks, Python functions, changing shapes."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
from simulated import SimulatedAccelerator

from workloads.protocol import Data, Workload

workload = Workload(
    name="truth-framework",
    title="A small network with Python code in and around its steps",
    data=Data(name="own", shape=(32, 32, 3), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"convolutions": 0, "eager": 0, "callback_ms": 0, "python_ms": 0, "lengths": 0,
            "sample_us": 0, "side": 32},
    stages=("read", "batch"),
    tuned={"steps_per_execution": 4, "run_eagerly": False},
)  # fmt: skip

LONGEST = 2048


class SleepingCallback(tf.keras.callbacks.Callback):
    """Sleep after every batch."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self._seconds = milliseconds / 1e3

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Sleep."""
        del batch, logs
        time.sleep(self._seconds)


class PythonLayer(tf.keras.layers.Layer):
    """Sleep in a Python function and return the input."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self._seconds = milliseconds / 1e3

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return the input."""
        return x + tf.stop_gradient(_pause(self._seconds, x))


class WaitingAccelerator(SimulatedAccelerator):
    """A simulated accelerator with a Python function in its step."""

    def __init__(self, *, python_ms: float, sample_us: float) -> None:
        super().__init__(step_us=0, sample_us=sample_us)
        self._python_s = python_ms / 1e3

    def train_step(self, data: tuple) -> dict:
        """Run the Python function, then the simulated device."""
        x, y = data
        return super().train_step((x + _pause(self._python_s, x) if self._python_s else x, y))


def _pause(seconds: float, x: tf.Tensor) -> tf.Tensor:
    def wait(touched: np.ndarray) -> np.float32:
        del touched
        time.sleep(seconds)
        return np.float32(0.0)

    waited = tf.numpy_function(wait, [tf.reshape(x, [-1])[0]], tf.float32)
    waited.set_shape(())
    return waited


def model(params: dict) -> tf.keras.Model:
    """Return the network; without convolutions and changing shapes, a simulated one."""
    layers = tf.keras.layers
    if params["lengths"]:
        inner = [
            layers.Input((None, 8)),
            layers.Dense(32, activation="relu"),
            layers.GlobalAveragePooling1D(),
        ]
    else:
        inner = [layers.Input((params["side"], params["side"], 3))]
        inner += [PythonLayer(params["python_ms"])] if params["python_ms"] else []
        inner += [
            layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(params["convolutions"])
        ]
        inner += [layers.Flatten()]
    net = tf.keras.Sequential([*inner, layers.Dense(10, activation="softmax")])
    if not params["lengths"] and not params["convolutions"]:
        net = WaitingAccelerator(python_ms=params["python_ms"], sample_us=params["sample_us"])
    net.compile(
        "sgd",
        "sparse_categorical_crossentropy",
        run_eagerly=bool(params["eager"]),
        jit_compile=params["lengths"] > 0,
    )
    return net


def callbacks(params: dict) -> list:
    """Return the callbacks for fit."""
    return [SleepingCallback(params["callback_ms"])] if params["callback_ms"] else []


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline: samples in memory, or batches of sequences with changing lengths."""
    del data_dir
    batch = params["batch_size"]
    if params["lengths"]:
        y = np.zeros(batch, np.int32)

        def sequences() -> tuple:
            random = np.random.default_rng()
            while True:
                yield random.random((batch, int(random.integers(16, LONGEST)), 8), np.float32), y

        signature = (tf.TensorSpec((batch, None, 8), tf.float32), tf.TensorSpec((batch,), tf.int32))
        return (
            ("read", lambda: tf.data.Dataset.from_generator(sequences, output_signature=signature)),
            ("batch", lambda before: before.prefetch(2)),
        )
    x = np.random.default_rng(1).random((1024, params["side"], params["side"], 3), np.float32)
    y = np.zeros(1024, np.int32)
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).repeat()),
        ("batch", lambda before: before.batch(batch, drop_remainder=True).prefetch(2)),
    )
