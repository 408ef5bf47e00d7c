"""Printed lines: convolutions, then a GRU over the columns; a metric counts edits in Python."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

HEIGHT = 16
WIDTH = 320
FILTERS = 4
BATCH_SIZE = 64
COUNT_EDITS = True
ACTIVATION = "tanh"
PICTURES = 640

pictures = np.random.rand(PICTURES, HEIGHT, WIDTH, 1).astype("float32")
letters = np.random.randint(0, 36, (PICTURES, WIDTH // 8))


def edits(true, predicted):
    total = 0
    for a, b in zip(true.numpy().tolist(), predicted.numpy().tolist(), strict=True):
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            previous, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
        total += row[-1]
    return np.float32(total / len(true))


def edit_distance(y_true, y_pred):
    guesses = tf.argmax(y_pred, axis=-1, output_type=tf.int32)
    distance = tf.py_function(edits, [tf.cast(y_true, tf.int32), guesses], tf.float32)
    return tf.ensure_shape(distance, ())


x = inputs = layers.Input((HEIGHT, WIDTH, 1))
for filters in (FILTERS, 2 * FILTERS, 4 * FILTERS):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
x = layers.Reshape((WIDTH // 8, HEIGHT // 8 * 4 * FILTERS))(layers.Permute((2, 1, 3))(x))
x = layers.GRU(64, return_sequences=True, activation=ACTIVATION)(x)
model = tf.keras.Model(inputs, layers.Dense(36, activation="softmax")(x))
model.compile(
    optimizer="adam",
    loss="sparse_categorical_crossentropy",
    metrics=[edit_distance] if COUNT_EDITS else ["accuracy"],
    jit_compile=False,
)
train = tf.data.Dataset.from_tensor_slices((pictures, letters)).batch(BATCH_SIZE, drop_remainder=True)
model.fit(train.cache().repeat().prefetch(tf.data.AUTOTUNE), epochs=100, steps_per_epoch=200, verbose=2)
