"""Few steps an epoch: a small training set, a validation set twice as large."""

import keras
import numpy as np
from keras import layers

SAMPLES = 480
VALIDATION_FREQ = 1

rng = np.random.default_rng(0)
x_train, y_train = rng.random((SAMPLES, 28, 28, 1), "float32"), rng.integers(0, 10, SAMPLES)
x_val, y_val = rng.random((2000, 28, 28, 1), "float32"), rng.integers(0, 10, 2000)

model = keras.Sequential(
    [
        layers.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    x_train, y_train, batch_size=32, epochs=1000, verbose=2,
    validation_data=(x_val, y_val), validation_freq=VALIDATION_FREQ,
)  # fmt: skip
