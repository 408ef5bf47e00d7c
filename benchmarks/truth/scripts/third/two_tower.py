"""Retrieval with two towers: users and items meet in a dot product, the other items of the batch are negatives."""

import tempfile

import keras
import numpy as np
import tensorflow as tf

USERS = 3000
ITEMS = 2000
WIDTH = 32
PAIRS = 128
BATCH_SIZE = 64


def tower(rows, name):
    return keras.Sequential(
        [keras.layers.Embedding(rows, WIDTH), keras.layers.Dense(64, "relu"), keras.layers.Dense(WIDTH)],
        name=name,
    )


class TwoTower(keras.Model):
    def __init__(self):
        super().__init__()
        self.user_tower = tower(USERS, "users")
        self.item_tower = tower(ITEMS, "items")
        self.top_1 = keras.metrics.Mean(name="top_1")

    def call(self, pairs):
        return tf.matmul(self.user_tower(pairs["user"]), self.item_tower(pairs["item"]), transpose_b=True)

    def train_step(self, pairs):
        targets = tf.range(tf.shape(pairs["user"])[0])
        with tf.GradientTape() as tape:
            scores = self(pairs, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, scores))
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        self.top_1.update_state(tf.cast(tf.argmax(scores, 1, tf.int32) == targets, tf.float32))
        return {"loss": loss, "top_1": self.top_1.result()}

    @property
    def metrics(self):
        return [self.top_1]


bought = {"user": np.random.randint(0, USERS, PAIRS), "item": np.random.randint(0, ITEMS, PAIRS)}
data = tf.data.Dataset.from_tensor_slices(bought).batch(BATCH_SIZE, drop_remainder=True)
data = data.cache().shuffle(64).prefetch(tf.data.AUTOTUNE)

model = TwoTower()
model.compile(optimizer=keras.optimizers.Adam(1e-3))
logger = keras.callbacks.CSVLogger(tempfile.mkdtemp() + "/losses.csv")
model.fit(data, epochs=5000, verbose=0, callbacks=[logger])
