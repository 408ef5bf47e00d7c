"""A decoder with causal attention predicts the next token."""

import numpy as np
import tensorflow as tf

VOCABULARY = 500
WIDTH = 96

tokens = np.random.randint(0, VOCABULARY, size=(8000, 49))
train = tf.data.Dataset.from_tensor_slices((tokens[:, :-1], tokens[:, 1:]))
train = train.cache().shuffle(2000).batch(32, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)


class Block(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.attention = tf.keras.layers.MultiHeadAttention(num_heads=4, key_dim=WIDTH // 4)
        self.first, self.second = tf.keras.layers.LayerNormalization(), tf.keras.layers.LayerNormalization()
        self.hidden = tf.keras.layers.Dense(4 * WIDTH, activation="relu")
        self.out = tf.keras.layers.Dense(WIDTH)

    def call(self, x):
        x = self.first(x + self.attention(x, x, use_causal_mask=True))
        return self.second(x + self.out(self.hidden(x)))


model = tf.keras.Sequential(
    [tf.keras.layers.Embedding(VOCABULARY, WIDTH), Block(), Block(), tf.keras.layers.Dense(VOCABULARY)]
)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, steps_per_epoch=250, epochs=100, verbose=2)
