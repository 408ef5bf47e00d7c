"""Sentences cleaned by a Python function in a parallel map, then an LSTM."""

import re

import keras
import numpy as np
import tensorflow as tf
from keras import layers

WORDS_PER_TEXT = 500
LENGTH = 40

rng = np.random.default_rng(0)
words = np.array([f"Word{i}," for i in range(3000)])
texts = [" ".join(rng.choice(words, WORDS_PER_TEXT)) for _ in range(500)]


def clean(text):
    found = [re.sub(r"[^a-z0-9]", "", word.lower()) for word in text.numpy().decode().split()]
    return np.array([hash(word) % 5000 for word in found[:LENGTH]], "int32")


def encode(text, label):
    ids = tf.py_function(clean, [text], tf.int32)
    return tf.ensure_shape(ids, (LENGTH,)), label


dataset = tf.data.Dataset.from_tensor_slices((texts, rng.integers(0, 2, 500))).repeat()
dataset = dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        layers.Input((LENGTH,)),
        layers.Embedding(5000, 32),
        layers.LSTM(64),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")
model.fit(dataset, epochs=50, steps_per_epoch=1000, verbose=2)
