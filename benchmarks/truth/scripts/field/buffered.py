"""PNG files decoded one by one behind a large prefetch buffer."""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE = 520

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for i in range(200):
    picture = rng.integers(0, 256, (SIDE // 8, SIDE // 8, 3), "uint8").repeat(8, 0).repeat(8, 1)
    (folder / f"{i % 10}_{i}.png").write_bytes(tf.io.encode_png(picture).numpy())


def load(path):
    image = tf.image.decode_png(tf.io.read_file(path), channels=3)
    label = tf.strings.to_number(tf.strings.split(tf.strings.split(path, "/")[-1], "_")[0], tf.int32)
    return tf.image.resize(image, (64, 64)) / 255.0, label


files = tf.data.Dataset.list_files(f"{folder}/*.png").repeat()
dataset = files.map(load).batch(16).prefetch(200)

model = keras.Sequential(
    [
        layers.Input((64, 64, 3)),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(dataset, epochs=100, steps_per_epoch=1000, verbose=2)
