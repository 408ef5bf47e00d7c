"""Wide and deep clicks: one hashed table for all features, AdamW over all of its buckets."""

import numpy as np
import tensorflow as tf

BUCKETS = 25_000

features = np.random.randint(0, BUCKETS, size=(100_000, 10))
numbers = np.random.rand(100_000, 13).astype("float32")
clicked = np.random.randint(0, 2, size=100_000)

ids = tf.keras.Input(shape=(10,), dtype="int32", name="ids")
dense = tf.keras.Input(shape=(13,), name="numbers")
embedded = tf.keras.layers.Flatten()(tf.keras.layers.Embedding(BUCKETS, 32)(ids))
deep = tf.keras.layers.concatenate([embedded, dense])
for units in (512, 256, 128):
    deep = tf.keras.layers.Dense(units, activation="relu")(deep)
wide = tf.keras.layers.Dense(1)(dense)
output = tf.keras.layers.Activation("sigmoid")(wide + tf.keras.layers.Dense(1)(deep))
model = tf.keras.Model({"ids": ids, "numbers": dense}, output)
model.compile(tf.keras.optimizers.AdamW(weight_decay=1e-4), "binary_crossentropy")

train = tf.data.Dataset.from_tensor_slices(({"ids": features, "numbers": numbers}, clicked))
model.fit(train.batch(1024).cache().repeat().prefetch(2), steps_per_epoch=1000, epochs=10, verbose=2)
