"""An LSTM that predicts the next character, with dropout between time steps."""

import numpy as np
import tensorflow as tf

RECURRENT_DROPOUT = 0.2
UNITS = 512
LENGTH = 60
BATCH_SIZE = 128

text = np.random.randint(0, 90, 2_000_000).astype("int32")


def split(window):
    return window[:-1], window[1:]


windows = (
    tf.data.Dataset.from_tensor_slices(text).batch(LENGTH + 1, drop_remainder=True).cache().shuffle(2000)
)
windows = windows.batch(BATCH_SIZE, drop_remainder=True).map(split, tf.data.AUTOTUNE).repeat().prefetch(4)


class CharacterModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(90, 64)
        self.lstm = tf.keras.layers.LSTM(UNITS, return_sequences=True, recurrent_dropout=RECURRENT_DROPOUT)
        self.head = tf.keras.layers.Dense(90)

    def call(self, x, training=False):
        return self.head(self.lstm(self.embedding(x), training=training))


model = CharacterModel()
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(windows, epochs=50, steps_per_epoch=200, verbose=2)
