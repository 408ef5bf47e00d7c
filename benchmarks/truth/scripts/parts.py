"""A simulated accelerator, real networks for the cases on a GPU, and pictures with the detail of photographs."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

# Imported before the driver starts timing such functions: this one simulates the device, not Python code.
from tensorflow import numpy_function as simulate

layers = tf.keras.layers


class SimulatedAccelerator(tf.keras.Model):
    """A model whose step waits instead of computing, as in DLIO; its weights never change.

    Args:
        step_us: launch overhead per step.
        sample_us: device time per sample.
    """

    def __init__(self, *, step_us: float, sample_us: float) -> None:
        super().__init__()
        self._step_s = step_us / 1e6
        self._sample_s = sample_us / 1e6
        self._dense = tf.keras.layers.Dense(10, activation="softmax")

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Predict from the first numbers of each sample, float32[n, 10]."""
        del training
        return self._dense(
            tf.ensure_shape(tf.reshape(tf.cast(x, tf.float32), [tf.shape(x)[0], -1])[:, :4], (None, 4))
        )

    def train_step(self, data: tuple) -> dict:
        """Wait for the device time of the batch; reads one input value so that the input must be ready."""
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


def convolutional(width: int) -> tf.keras.Model:
    """Return five convolutions with `width` filters for pictures of any size, 10 classes."""
    same = (layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(4))
    return tf.keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Conv2D(width, 3, strides=2, activation="relu"),
            *same,
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def dense(width: int) -> tf.keras.Model:
    """Return four dense layers of `width` units, 10 classes."""
    inner = (layers.Dense(width, activation="relu") for _ in range(4))
    return tf.keras.Sequential([*inner, layers.Dense(10, activation="softmax")])


def picture(side: int, *, noise: float, seed: int) -> tf.Tensor:
    """Return a picture of `side` x `side` pixels; more noise makes its files larger."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (side // 8, side // 8, 3)).astype(np.float32)
    smooth = tf.image.resize(coarse, (side, side))
    pixels = smooth + noise * random.standard_normal((side, side, 3), np.float32)
    return tf.cast(tf.clip_by_value(pixels, 0, 255), tf.uint8)
