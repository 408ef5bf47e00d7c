"""A convolutional network on pictures in memory."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH_SIZE = 32
POLICY = "float32"
FILTERS = 32
REPEAT_ONE_BATCH = False

keras.mixed_precision.set_global_policy(POLICY)
rng = np.random.default_rng(0)
x, y = rng.random((4096, 32, 32, 3), "float32"), rng.integers(0, 10, 4096)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096).batch(BATCH_SIZE, drop_remainder=True)
if REPEAT_ONE_BATCH:
    dataset = dataset.take(1).cache()
dataset = dataset.repeat().prefetch(tf.data.AUTOTUNE)

inputs = layers.Input((32, 32, 3))
h = inputs
for filters in (FILTERS, 2 * FILTERS):
    h = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
    h = layers.BatchNormalization()(h)
    h = layers.ReLU()(h)
    h = layers.Conv2D(filters, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
h = layers.Dense(128, activation="relu")(layers.Flatten()(h))
model = keras.Model(inputs, layers.Dense(10, activation="softmax", dtype="float32")(h))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=50, steps_per_epoch=500, verbose=2)
