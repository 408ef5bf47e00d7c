"""Record files in the order of their names: thumbnails first, large photographs later."""

import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LARGE = 576
SMALL_FILES = 4

folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
for i in range(8):
    side = 64 if i < SMALL_FILES else LARGE
    with tf.io.TFRecordWriter(f"{folder}/part-{i:02d}.tfrecord") as writer:
        for _ in range(600 if i < SMALL_FILES else 50):
            picture = rng.integers(0, 256, (side // 16, side // 16, 3), "uint8").repeat(16, 0).repeat(16, 1)
            writer.write(tf.io.encode_jpeg(picture).numpy())


def decode(record):
    return tf.image.resize(tf.image.decode_jpeg(record, channels=3), (64, 64)) / 255.0, 1


small = tf.data.TFRecordDataset([f"{folder}/part-{i:02d}.tfrecord" for i in range(SMALL_FILES)])
large = tf.data.TFRecordDataset([f"{folder}/part-{i:02d}.tfrecord" for i in range(SMALL_FILES, 8)])
dataset = small.concatenate(large.repeat()).map(decode, num_parallel_calls=1).batch(16).prefetch(2)

model = keras.Sequential(
    [
        layers.Input((64, 64, 3)),
        layers.Conv2D(24, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.SeparableConv2D(48, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(2, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(dataset, epochs=50, steps_per_epoch=2000, verbose=2)
