"""A stacked LSTM that forecasts time series, in memory."""

import keras
import numpy as np
from keras import layers

BATCH_SIZE = 256
UNITS = 128

series = np.sin(np.linspace(0, 600, 50_000)) + np.random.default_rng(0).normal(0, 0.1, 50_000)
dataset = keras.utils.timeseries_dataset_from_array(
    series[:-24].astype("float32")[:, None], series[24:].astype("float32"), 24, batch_size=BATCH_SIZE
)

model = keras.Sequential(
    [
        layers.Input((24, 1)),
        layers.LSTM(UNITS, return_sequences=True),
        layers.LSTM(UNITS),
        layers.Dense(1),
    ]
)
model.compile("adam", "mse")
model.fit(dataset, epochs=50, verbose=2)
