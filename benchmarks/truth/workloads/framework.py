"""Training that loses its time in Python: eager steps, callbacks, Python functions, changing shapes."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
from simulated import SimulatedAccelerator

from workloads.protocol import Data, Workload

workload = Workload(
    name="truth-framework",
    title="A small network with Python in and around its steps",
    data=Data(name="own", shape=(32, 32, 3), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"convolutions": 0, "eager": 0, "callback_ms": 0, "python_ms": 0, "metric_ms": 0, "lengths": 0,
            "sample_us": 0, "side": 32},
    stages=("read", "batch"),
    tuned={"steps_per_execution": 4, "run_eagerly": False},
)  # fmt: skip

LONGEST = 2048


class Pause(tf.keras.callbacks.Callback):
    """Sleeps after every batch."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self._seconds = milliseconds / 1e3

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Sleep."""
        del batch, logs
        time.sleep(self._seconds)


class Slow(tf.keras.layers.Layer):
    """Passes its input through Python, which sleeps."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self._seconds = milliseconds / 1e3

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return the input."""
        return x + tf.stop_gradient(_pause(self._seconds, x))


class WaitingModel(SimulatedAccelerator):
    """A simulated accelerator with Python functions in its step."""

    def __init__(self, layers: list, *, python_ms: float, metric_ms: float, **more: float) -> None:
        super().__init__(layers, **more)
        self._waits_s = [each / 1e3 for each in (python_ms, metric_ms) if each]

    def train_step(self, data: tuple) -> dict:
        """Run the Python functions, then the simulated device."""
        x, y = data
        for seconds in self._waits_s:
            x = x + _pause(seconds, x)
        return super().train_step((x, y))


def _pause(seconds: float, x: tf.Tensor) -> tf.Tensor:
    def wait(touched: np.ndarray) -> np.float32:
        del touched
        time.sleep(seconds)
        return np.float32(0.0)

    waited = tf.numpy_function(wait, [tf.reshape(x, [-1])[0]], tf.float32)
    waited.set_shape(())
    return waited


def model(params: dict) -> tf.keras.Model:
    """Return the network, simulated where it has no convolutions and its shapes do not change."""
    if params["lengths"]:
        layers = [
            tf.keras.layers.Input((None, 8)),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
        net = tf.keras.Sequential(layers)
        net.compile("sgd", "sparse_categorical_crossentropy", jit_compile=True)
        return net
    if not params["convolutions"]:
        layers = [
            tf.keras.layers.Input((32, 32, 3)),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
        net = WaitingModel(
            layers, python_ms=params["python_ms"], metric_ms=params["metric_ms"], step_us=0,
            sample_us=params["sample_us"],
        )  # fmt: skip
    else:
        layers = [tf.keras.layers.Input((params["side"], params["side"], 3))]
        layers += [Slow(params["python_ms"])] if params["python_ms"] else []
        layers += [
            tf.keras.layers.Conv2D(8, 3, padding="same", activation="relu")
            for _ in range(params["convolutions"])
        ]
        layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")]
        net = tf.keras.Sequential(layers)
    net.compile(
        "sgd", "sparse_categorical_crossentropy", run_eagerly=bool(params["eager"]), jit_compile=False
    )
    return net


def callbacks(params: dict) -> list:
    """Return the callbacks of fit."""
    return [Pause(params["callback_ms"])] if params["callback_ms"] else []


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline: samples in memory, or sequences of another length in every batch."""
    del data_dir
    batch = params["batch_size"]
    if params["lengths"]:
        y = np.zeros(batch, np.int32)

        def made() -> tuple:
            random = np.random.default_rng()
            while True:
                yield random.random((batch, int(random.integers(16, LONGEST)), 8), np.float32), y

        signature = (tf.TensorSpec((batch, None, 8), tf.float32), tf.TensorSpec((batch,), tf.int32))
        return (
            ("read", lambda: tf.data.Dataset.from_generator(made, output_signature=signature)),
            ("batch", lambda before: before.prefetch(2)),
        )
    x = np.random.default_rng(1).random((1024, params["side"], params["side"], 3), np.float32)
    y = np.zeros(1024, np.int32)
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).repeat()),
        ("batch", lambda before: before.batch(batch, drop_remainder=True).prefetch(2)),
    )
