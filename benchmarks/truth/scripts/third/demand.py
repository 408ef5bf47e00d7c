"""Demand of the next hour from the last 24, in batches of 32."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

STEPS_PER_EXECUTION = 1

hours = (np.sin(np.arange(40_000) / 24) + np.random.normal(0, 0.1, 40_000)).astype("float32")
train = keras.utils.timeseries_dataset_from_array(hours[:-24], hours[24:], 24, batch_size=32, shuffle=True)
train = train.cache().repeat().prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((24,))
x = keras.layers.Dense(64, activation="relu")(inputs)
x = keras.layers.Dense(32, activation="relu")(keras.layers.Dropout(0.1)(x))
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile("adam", "mse", metrics=["mae"], steps_per_execution=STEPS_PER_EXECUTION)
model.fit(train, epochs=30, steps_per_epoch=4000, verbose=2)
