"""A callback that computes statistics of all weights after every batch."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

EVERY = 1
SIZE = 384

rng = np.random.default_rng(0)
x, y = rng.random((6400, 24, 24, 3), "float32"), rng.integers(0, 10, 6400)


class WeightMonitor(keras.callbacks.Callback):
    history = []  # noqa: RUF012

    def on_train_batch_end(self, batch, logs=None):
        if batch % EVERY == EVERY - 1:
            weights = [np.ravel(weight) for weight in self.model.get_weights()]
            self.history.append([(w.mean(), w.std(), np.percentile(w, 99)) for w in weights])


model = keras.Sequential(
    [
        layers.Input((24, 24, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(SIZE // 12, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("sgd", "sparse_categorical_crossentropy")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).repeat().batch(64).prefetch(2)
model.fit(dataset, steps_per_epoch=5000, epochs=100, verbose=2, callbacks=[WeightMonitor()])
