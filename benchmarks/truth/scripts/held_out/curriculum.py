"""Texts sorted by length, short ones first, vectorised one by one."""

import numpy as np
import tensorflow as tf

LONGEST = 6000
SHORT = 4000

vocabulary = np.array([f"w{i}" for i in range(2000)])
lengths = np.concatenate([np.full(SHORT, 20), np.linspace(LONGEST // 2, LONGEST, 300).astype(int)])
texts = [" ".join(np.random.choice(vocabulary, length)) for length in lengths]
labels = np.random.randint(0, 3, len(texts))

vectorize = tf.keras.layers.TextVectorization(output_sequence_length=64, vocabulary=vocabulary.tolist())
pairs = tf.data.Dataset.from_tensor_slices((texts, labels))
pairs = pairs.take(SHORT).concatenate(pairs.skip(SHORT).repeat())
train = pairs.map(lambda text, label: (vectorize(text), label)).batch(20).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input(shape=(64,), dtype="int64"),
        tf.keras.layers.Embedding(2002, 48),
        tf.keras.layers.SeparableConv1D(64, 5, activation="relu"),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(3, activation="softmax"),
    ]
)
model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, steps_per_epoch=5000, epochs=20, verbose=2)
