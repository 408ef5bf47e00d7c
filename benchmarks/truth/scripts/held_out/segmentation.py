"""A small U-Net on pictures in memory."""

import numpy as np
import tensorflow as tf

BATCH = 8
CACHED_BATCH = False

pictures = np.random.rand(256, 64, 64, 3).astype("float32")
masks = np.random.randint(0, 2, (256, 64, 64, 1)).astype("float32")
train = tf.data.Dataset.from_tensor_slices((pictures, masks)).repeat().shuffle(256).batch(BATCH)
if CACHED_BATCH:
    train = train.take(1).cache().repeat()


def block(x, filters):
    for _ in range(2):
        x = tf.keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


inputs = tf.keras.Input((64, 64, 3))
high = block(inputs, 16)
low = block(tf.keras.layers.MaxPooling2D()(high), 32)
up = tf.keras.layers.Conv2DTranspose(16, 2, strides=2, padding="same")(low)
outputs = block(tf.keras.layers.Concatenate()([up, high]), 16)
outputs = tf.keras.layers.Conv2D(1, 1, activation="sigmoid")(outputs)
model = tf.keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(train.prefetch(tf.data.AUTOTUNE), steps_per_epoch=1000, epochs=100, verbose=2)
