"""A tiny network on a table, saved every SAVE_FREQ batches."""

import tempfile

import keras
import numpy as np
from keras import layers

SAVE_FREQ = 500
WEIGHTS_ONLY = True
STEPS_PER_EXECUTION = 1

rng = np.random.default_rng(0)
x = rng.normal(size=(640_000, 20)).astype("float32")
y = (x[:, :5].sum(1) > 0).astype("float32")

model = keras.Sequential(
    [layers.Input((20,)), layers.Dense(32, activation="relu"), layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", steps_per_execution=STEPS_PER_EXECUTION)
suffix = ".weights.h5" if WEIGHTS_ONLY else ".keras"
checkpoint = keras.callbacks.ModelCheckpoint(
    tempfile.mkdtemp() + "/model" + suffix, save_weights_only=WEIGHTS_ONLY, save_freq=SAVE_FREQ
)
model.fit(x, y, batch_size=32, epochs=100, verbose=2, callbacks=[checkpoint])
