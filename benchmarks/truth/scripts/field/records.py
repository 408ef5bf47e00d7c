"""TFRecord files of PNG pictures, parsed and decoded without parallelism."""

import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE = 192
PARALLEL = None

rng = np.random.default_rng(0)
file = tempfile.mkdtemp() + "/train.tfrecord"
with tf.io.TFRecordWriter(file) as writer:
    for label in rng.integers(0, 5, 300):
        picture = rng.integers(0, 256, (SIDE // 4, SIDE // 4, 3), "uint8").repeat(4, 0).repeat(4, 1)
        png = tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(picture).numpy()]))
        number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
        features = tf.train.Features(feature={"image": png, "label": number})
        writer.write(tf.train.Example(features=features).SerializeToString())


def parse(record):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, spec)
    image = tf.io.decode_png(example["image"], channels=3)
    return tf.image.resize(image, (32, 32)) / 255.0, example["label"]


dataset = tf.data.TFRecordDataset(file).map(parse, num_parallel_calls=PARALLEL)
dataset = dataset.shuffle(100).repeat().batch(32).prefetch(1)

model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(5, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(dataset, epochs=100, steps_per_epoch=2000, verbose=2)
