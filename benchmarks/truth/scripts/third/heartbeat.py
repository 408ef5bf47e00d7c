"""A convolutional autoencoder for heartbeats; a NumPy function filters each signal on its way into the model."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

LENGTH = 512
FILTER = True
BATCH_SIZE = 32

rng = np.random.default_rng(7)
time = np.linspace(0, 8 * np.pi, LENGTH)
signals = np.sin(time * rng.uniform(0.5, 2, (3000, 1))) + rng.normal(0, 0.2, (3000, LENGTH))
signals = signals.astype(np.float32)[..., None]


def median_filter(signal):
    if not FILTER:
        return signal
    padded = np.pad(signal[:, 0], 12, mode="edge")
    return np.array([[sorted(padded[i : i + 25])[12]] for i in range(len(signal))], np.float32)


def clean(signal):
    filtered = tf.numpy_function(median_filter, [signal], tf.float32)
    filtered.set_shape((LENGTH, 1))
    return signal, filtered


dataset = (
    tf.data.Dataset.from_tensor_slices(signals)
    .repeat()
    .shuffle(1000)
    .map(clean)
    .batch(BATCH_SIZE)
    .prefetch(tf.data.AUTOTUNE)
)

encoder = tf.keras.Sequential(
    [
        layers.Input((LENGTH, 1)),
        layers.Conv1D(16, 9, strides=2, padding="same", activation="relu"),
        layers.Conv1D(32, 9, strides=2, padding="same", activation="relu"),
        layers.Conv1D(32, 9, strides=2, padding="same", activation="relu"),
    ],
    name="encoder",
)
decoder = tf.keras.Sequential(
    [
        layers.Conv1DTranspose(32, 9, strides=2, padding="same", activation="relu"),
        layers.Conv1DTranspose(32, 9, strides=2, padding="same", activation="relu"),
        layers.Conv1DTranspose(1, 9, strides=2, padding="same"),
    ],
    name="decoder",
)
autoencoder = tf.keras.Sequential([encoder, decoder])
autoencoder.compile("adam", "mae")
autoencoder.fit(dataset, epochs=50, steps_per_epoch=500)
