"""A simulated accelerator: a Keras model whose training step takes a known time and no CPU time."""

from __future__ import annotations

import math
import time

import numpy as np
import tensorflow as tf

# Bound here, before the driver times such functions: what it simulates is the device, not Python.
from tensorflow import numpy_function as simulate


class SimulatedAccelerator(tf.keras.Sequential):
    """A model whose step waits, as DLIO emulates computation, instead of computing.

    Args:
        step_us: what starting any step takes, whatever its batch: launch overhead.
        sample_us: what each sample of the batch takes beside: the device's own speed.
    """

    def __init__(self, layers: list, *, step_us: float, sample_us: float) -> None:
        super().__init__(layers)
        self._step_s = step_us / 1e6
        self._sample_s = sample_us / 1e6

    def train_step(self, data: tuple) -> dict:
        """Wait for as long as the batch takes; the input is touched, so that it has to be there."""
        x, _ = data
        loss = simulate(self._work, [tf.shape(x)[0], tf.reshape(x, [-1])[0]], tf.float32)
        loss.set_shape(())
        return {"loss": loss}

    def _work(self, samples: np.ndarray, touched: np.ndarray) -> np.float32:
        del touched
        end = time.monotonic() + self._step_s + self._sample_s * int(samples)
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)
        return np.float32(0.0)


def compiled(shape: tuple, params: dict) -> tf.keras.Model:
    """Return a simulated accelerator for samples of `shape`, or the real network where `real` is set."""
    net = network(shape, params) if params["real"] else stand_in(shape, params)
    net.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return net


def stand_in(shape: tuple, params: dict) -> tf.keras.Model:
    """Return the simulated accelerator, uncompiled; its few weights are never trained."""
    numbers = math.prod(shape)
    layers = [
        tf.keras.layers.Input(shape),
        tf.keras.layers.Lambda(lambda x: tf.reshape(tf.cast(x, tf.float32), [-1, numbers])[:, :4]),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
    return SimulatedAccelerator(layers, step_us=params["step_us"], sample_us=params["sample_us"])


def network(shape: tuple, params: dict) -> tf.keras.Model:
    """Return a network for a real GPU, `width` channels or units wide, uncompiled."""
    width = params["width"]
    if len(shape) == 1:
        layers = [tf.keras.layers.Dense(width, activation="relu") for _ in range(4)]
    else:
        layers = [
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Conv2D(width, 3, strides=2, activation="relu"),
            *(tf.keras.layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(4)),
            tf.keras.layers.GlobalAveragePooling2D(),
        ]
    return tf.keras.Sequential(
        [tf.keras.layers.Input(shape), *layers, tf.keras.layers.Dense(10, activation="softmax")]
    )
