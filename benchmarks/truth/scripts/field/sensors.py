"""Many small CSV files, interleaved and parsed line by line; convolutions over time."""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LINES = 40
IN_MEMORY = False

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for i in range(200):
    values = rng.random((LINES, 129)).round(3)
    values[:, 0] = i % 2
    (folder / f"{i:03d}.csv").write_text("\n".join(",".join(map(str, line)) for line in values))


def parse(line):
    fields = tf.io.decode_csv(line, [0.0] * 129)
    return tf.stack(fields[1:])[:, None], fields[0]


files = tf.data.Dataset.list_files(f"{folder}/*.csv")
dataset = files.interleave(tf.data.TextLineDataset, cycle_length=16).map(parse)
if IN_MEMORY:
    dataset = dataset.cache()
dataset = dataset.repeat().shuffle(1000).batch(64).prefetch(2)

model = keras.Sequential(
    [
        layers.Input((128, 1)),
        layers.Conv1D(32, 7, activation="relu"),
        layers.Conv1D(32, 7, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")
model.fit(dataset, epochs=100, steps_per_epoch=2000, verbose=2)
