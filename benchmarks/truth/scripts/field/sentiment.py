"""An LSTM that saves itself and predicts samples at the end of every epoch."""

import tempfile

import keras
import numpy as np
from keras import layers

SAMPLES = 6144
REPORT_EVERY = 1

rng = np.random.default_rng(0)
x, y = rng.integers(1, 5000, (SAMPLES, 60)), rng.integers(0, 2, SAMPLES)
x_test = rng.integers(1, 5000, (256, 60))
folder = tempfile.mkdtemp()

model = keras.Sequential(
    [layers.Input((60,)), layers.Embedding(5000, 32), layers.LSTM(64), layers.Dense(1, activation="sigmoid")]
)


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch % REPORT_EVERY == REPORT_EVERY - 1:
            self.model.save(f"{folder}/latest.keras")
            scores = self.model.predict(x_test, verbose=0)
            print("positive:", float((scores > 0.5).mean()))


model.compile("rmsprop", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=1000, verbose=2, callbacks=[Report()])
