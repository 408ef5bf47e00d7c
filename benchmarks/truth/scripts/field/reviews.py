"""Text classification by convolutions over embedded words."""

import keras
import numpy as np
from keras import layers

WORDS = 32_000
BATCH_SIZE = 64

rng = np.random.default_rng(0)
x, y = rng.integers(0, WORDS, (20_000, 120)), rng.integers(0, 2, 20_000)

model = keras.Sequential(
    [
        layers.Input((120,)),
        layers.Embedding(WORDS, 64),
        layers.Conv1D(128, 5, activation="relu"),
        layers.Conv1D(128, 5, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=BATCH_SIZE, epochs=50, verbose=2)
