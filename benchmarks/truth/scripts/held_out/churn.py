"""Twelve steps an epoch on half of the data; the other half is validation."""

import tempfile

import numpy as np
import tensorflow as tf

CUSTOMERS = 768
VALIDATION_SPLIT = 0.5

clicks = np.random.rand(CUSTOMERS, 96, 4).astype(np.float32)
left = np.random.randint(0, 2, size=(CUSTOMERS, 1))

inputs = tf.keras.Input(shape=(96, 4))
x = tf.keras.layers.Conv1D(32, 5, padding="same", activation="relu")(inputs)
x = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(24))(x)
x = tf.keras.layers.Dropout(0.3)(x)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(x))
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["AUC"])
model.fit(
    clicks,
    left,
    validation_split=VALIDATION_SPLIT,
    epochs=1000,
    verbose=0,
    callbacks=[
        tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1000, restore_best_weights=True),
        tf.keras.callbacks.CSVLogger(tempfile.mkdtemp() + "/log.csv"),
    ],
)
