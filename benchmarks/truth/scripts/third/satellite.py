"""Satellite pictures as NumPy makes them; the first layer reduces them."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers

DTYPE = "float64"
SIDE = 384
TILES = 256
BATCH_SIZE = 64

tiles = np.random.rand(TILES, SIDE, SIDE, 3)
tiles = tiles if DTYPE == "float64" else (255 * tiles).astype(DTYPE)
land_use = tf.keras.utils.to_categorical(np.random.randint(0, 9, TILES), 9)
tiles = tf.data.Dataset.from_tensor_slices((tiles, land_use)).batch(BATCH_SIZE).cache().repeat()

inputs = layers.Input((SIDE, SIDE, 3), dtype=DTYPE)
x = layers.Rescaling(1.0 if DTYPE == "float64" else 1 / 255)(inputs)
x = layers.Conv2D(64, 8, strides=8, activation="relu")(x)
for _ in range(3):
    y = layers.SeparableConv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.BatchNormalization()(layers.add([x, y]))
x = layers.GlobalAveragePooling2D()(x)
model = Model(inputs, layers.Dense(9, activation="softmax")(x))
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
model.fit(tiles.prefetch(tf.data.AUTOTUNE), steps_per_epoch=200, epochs=50, verbose=2)
