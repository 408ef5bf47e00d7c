"""An image embedding with a custom training step, run eagerly."""

import numpy as np
import tensorflow as tf

EAGER = True

images = np.random.rand(2000, 32, 32, 3).astype("float32")
classes = np.random.randint(0, 8, 2000)


class Embedder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [tf.keras.layers.Conv2D(n, 3, strides=2, activation="relu") for n in (32, 64, 64)]
        self.pool, self.head = tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(32)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return tf.math.l2_normalize(self.head(self.pool(x)), axis=1)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            vectors = self(x, training=True)
            same = tf.cast(y[:, None] == y[None, :], tf.float32)
            loss = tf.reduce_mean(tf.square(vectors @ tf.transpose(vectors) - same))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


model = Embedder()
model.compile(optimizer="adam", run_eagerly=EAGER)
train = tf.data.Dataset.from_tensor_slices((images, classes)).repeat().shuffle(500).batch(64).prefetch(2)
model.fit(train, steps_per_epoch=1000, epochs=50, verbose=2)
