"""Texts sorted by length and padded to the longest of their batch; the batches come in random order."""

import numpy as np
import tensorflow as tf

PAD_TO_LONGEST = True
LONGEST = 420
JIT_COMPILE = True
WIDTH = 96
BATCH_SIZE = 16

lengths = np.sort(np.random.randint(20, LONGEST, 6400))
ragged = tf.RaggedTensor.from_row_lengths(np.random.randint(1, 1000, lengths.sum()), lengths)
topics = np.random.randint(0, 20, len(lengths))

texts = tf.data.Dataset.from_tensor_slices((ragged, topics)).map(lambda text, topic: (text[:], topic))
texts = texts.padded_batch(BATCH_SIZE, ([None if PAD_TO_LONGEST else LONGEST], []), drop_remainder=True)
texts = texts.cache().shuffle(len(lengths) // BATCH_SIZE).repeat().prefetch(2)

tokens = tf.keras.Input((None if PAD_TO_LONGEST else LONGEST,), dtype="int64")
x = tf.keras.layers.Embedding(1000, WIDTH)(tokens)
for _ in range(3):
    x = x + tf.keras.layers.Dense(WIDTH, activation="relu")(x)
importance = tf.keras.layers.Softmax(axis=1)(tf.keras.layers.Dense(1)(x))
x = tf.keras.layers.Flatten()(tf.keras.layers.Dot(axes=1)([importance, x]))
model = tf.keras.Model(tokens, tf.keras.layers.Dense(20)(x))
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["sparse_categorical_accuracy"],
    jit_compile=JIT_COMPILE or "auto",
)
model.fit(texts, steps_per_epoch=400, epochs=20, verbose=2)
