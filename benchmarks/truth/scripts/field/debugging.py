"""A convolutional network left in eager mode after debugging."""

import keras
import numpy as np
from keras import layers

RUN_EAGERLY = True

rng = np.random.default_rng(0)
x, y = rng.random((20_000, 28, 28, 1), "float32"), rng.integers(0, 10, 20_000)

model = keras.Sequential([layers.Input((28, 28, 1))])
for filters in (8, 16, 32):
    model.add(layers.Conv2D(filters, 3, padding="same"))
    model.add(layers.BatchNormalization())
    model.add(layers.ReLU())
    model.add(layers.MaxPooling2D())
model.add(layers.Flatten())
model.add(layers.Dense(10, activation="softmax"))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], run_eagerly=RUN_EAGERLY)
model.fit(x, y, batch_size=16, epochs=200, verbose=2)
