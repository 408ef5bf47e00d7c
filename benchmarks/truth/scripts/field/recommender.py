"""Ratings of items by users: two embedding tables, Adam over all of their rows."""

import keras
import numpy as np
from keras import layers

USERS = 250_000
ITEMS = 50_000
SIZE = 32

rng = np.random.default_rng(0)
user, item = rng.integers(0, USERS, 200_000), rng.integers(0, ITEMS, 200_000)
rating = rng.random(200_000, "float32")

user_input, item_input = layers.Input((), dtype="int32"), layers.Input((), dtype="int32")
u = layers.Embedding(USERS, SIZE)(user_input)
v = layers.Embedding(ITEMS, SIZE)(item_input)
h = layers.Dense(64, activation="relu")(layers.Concatenate()([u, v]))
model = keras.Model([user_input, item_input], layers.Dense(1)(h))
model.compile(keras.optimizers.Adam(1e-3), "mse")
model.fit([user, item], rating, batch_size=256, epochs=20, verbose=2)
