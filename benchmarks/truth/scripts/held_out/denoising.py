"""A dense autoencoder with a global precision policy."""

import numpy as np
import tensorflow as tf

PRECISION = "mixed_float16"

tf.keras.mixed_precision.set_global_policy(PRECISION)
clean = np.random.rand(65_536, 196).astype(np.float32)
noisy = clean + np.random.normal(0, 0.1, clean.shape).astype(np.float32)

autoencoder = tf.keras.Sequential([tf.keras.Input(shape=(196,))])
for units in (128, 64, 32, 64, 128):
    autoencoder.add(tf.keras.layers.Dense(units, activation="relu"))
autoencoder.add(tf.keras.layers.Dense(196, dtype="float32"))
autoencoder.compile(optimizer=tf.keras.optimizers.Adam(), loss="mae")
autoencoder.fit(noisy, clean, batch_size=64, epochs=1000, shuffle=True, verbose=2)
