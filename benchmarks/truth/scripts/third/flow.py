"""A surrogate of a flow solver, in the solver's own precision."""

import keras
import numpy as np

FLOATX = "float64"
WIDTH = 2048
BATCH_SIZE = 8192

keras.config.set_floatx(FLOATX)

coordinates = np.random.uniform(-1, 1, (128 * BATCH_SIZE, 4)).astype(FLOATX)
pressure = np.sin(coordinates.sum(axis=1, keepdims=True))

network = keras.Sequential([keras.Input((4,))])
for _ in range(5):
    network.add(keras.layers.Dense(WIDTH, activation="tanh"))
network.add(keras.layers.Dense(1))
network.compile(optimizer=keras.optimizers.Adam(1e-4), loss="mse")
network.fit(coordinates, pressure, batch_size=BATCH_SIZE, epochs=2000, verbose=0)
