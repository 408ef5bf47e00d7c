"""A small transformer encoder that classifies sequences of tokens."""

import keras
import numpy as np
from keras import layers

BATCH_SIZE = 32
POLICY = "float32"
LENGTH = 64
SIZE = 128
SHUFFLE = True

keras.mixed_precision.set_global_policy(POLICY)
rng = np.random.default_rng(0)
tokens, labels = rng.integers(0, 2000, (20_000, LENGTH)), rng.integers(0, 4, 20_000)

inputs = layers.Input((LENGTH,), dtype="int32")
h = layers.Embedding(2000, SIZE)(inputs)
h = h + layers.Embedding(LENGTH, SIZE)(np.arange(LENGTH)[None])
for _ in range(2):
    a = layers.MultiHeadAttention(4, SIZE // 4)(h, h)
    h = layers.LayerNormalization()(h + a)
    f = layers.Dense(SIZE)(layers.Dense(4 * SIZE, activation="gelu")(h))
    h = layers.LayerNormalization()(h + f)
outputs = layers.Dense(4, activation="softmax", dtype="float32")(layers.GlobalAveragePooling1D()(h))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(tokens, labels, batch_size=BATCH_SIZE, epochs=50, shuffle=SHUFFLE, verbose=2)
