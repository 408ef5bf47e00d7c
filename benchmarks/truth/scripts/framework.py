"""Training that loses time in Python: eager steps, callbacks, Python functions, changing shapes."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator

BATCH_SIZE = 8
SIDE = 32
CONVOLUTIONS = 0  # 0 for the simulated accelerator
EAGER = False
CALLBACK_MS = 0
SAVE_EVERY = 0  # batches
PYTHON_MS = 0
CHANGING_LENGTHS = False
SAMPLE_US = 0
STEPS = 1_000_000

LONGEST = 2048
layers = tf.keras.layers


class SleepingCallback(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        del batch, logs
        time.sleep(CALLBACK_MS / 1e3)


class PythonLayer(layers.Layer):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.stop_gradient(pause(x))


class WaitingAccelerator(SimulatedAccelerator):
    """A simulated accelerator with a Python function in its step."""

    def train_step(self, data: tuple) -> dict:
        x, y = data
        return super().train_step((x + pause(x) if PYTHON_MS else x, y))


def wait(touched: np.ndarray) -> np.float32:
    del touched
    time.sleep(PYTHON_MS / 1e3)
    return np.float32(0.0)


def pause(x: tf.Tensor) -> tf.Tensor:
    """Return 0 after a while, in Python."""
    waited = tf.numpy_function(wait, [tf.reshape(x, [-1])[0]], tf.float32)
    waited.set_shape(())
    return waited


def sequences() -> Iterator[tuple]:
    random, y = np.random.default_rng(), np.zeros(BATCH_SIZE, np.int32)
    while True:
        yield random.random((BATCH_SIZE, int(random.integers(16, LONGEST)), 8), np.float32), y


if CHANGING_LENGTHS:
    inner = [layers.Input((None, 8)), layers.Dense(32, activation="relu"), layers.GlobalAveragePooling1D()]
    signature = (tf.TensorSpec((BATCH_SIZE, None, 8), tf.float32), tf.TensorSpec((BATCH_SIZE,), tf.int32))
    dataset = tf.data.Dataset.from_generator(sequences, output_signature=signature).prefetch(2)
else:
    inner = [layers.Input((SIDE, SIDE, 3))]
    inner += [PythonLayer()] if PYTHON_MS else []
    inner += [layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(CONVOLUTIONS)]
    inner += [layers.Flatten()]
    samples = np.random.default_rng(1).random((1024, SIDE, SIDE, 3), np.float32), np.zeros(1024, np.int32)
    dataset = tf.data.Dataset.from_tensor_slices(samples).repeat()
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(2)

if CHANGING_LENGTHS or CONVOLUTIONS:
    model = tf.keras.Sequential([*inner, layers.Dense(10, activation="softmax")])
else:
    model = WaitingAccelerator(step_us=0, sample_us=SAMPLE_US)
model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=EAGER, jit_compile=CHANGING_LENGTHS)
callbacks = [SleepingCallback()] if CALLBACK_MS else []
if SAVE_EVERY:
    file = str(Path(tempfile.mkdtemp()) / "model.keras")
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(file, save_freq=SAVE_EVERY))
model.fit(dataset, steps_per_epoch=STEPS, verbose=2, callbacks=callbacks)
