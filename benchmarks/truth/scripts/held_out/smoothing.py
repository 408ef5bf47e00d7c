"""A callback that smooths the whole history of losses after every batch."""

import numpy as np
import tensorflow as tf

SMOOTH = True

x = np.random.rand(12_800, 16, 16, 1).astype("float32")
y = np.random.randint(0, 10, 12_800)


class Smooth(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.losses = [0.0] * 150_000  # of an earlier training

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        if SMOOTH:
            average = 0.0
            for loss in self.losses:
                average = 0.98 * average + 0.02 * loss
            self.average = average


model = tf.keras.Sequential(
    [
        tf.keras.Input((16, 16, 1)),
        tf.keras.layers.Conv2D(24, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy")
train = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).cache().repeat().prefetch(2)
model.fit(train, steps_per_epoch=4000, epochs=50, verbose=2, callbacks=[Smooth()])
