# /// tfbench
# title = "Recommender (DLRM), clicks from TFRecord files"
# source = "Naumov et al. 2019, DLRM; its sizes in MLPerf Training"
# accuracy = 0.6
# tuned = "tuned.py"
# components = ["memory_needs.py"]
#
# [data]
# constant = "DATA"
# name = "clicks"
# kind = "clicks"
# shape = [13, 26]
# dtype = "float32"
# classes = 2
# train = 1048576
# test = 131072
#
# [cpu]
# MAX_ROWS = 100000
#
# [[published]]
# source = "NVIDIA DeepLearningExamples, TensorFlow2 DLRM, 2023"
# system = "one A100 80GB of a DGX A100, mixed precision, XLA, batch 64k"
# device = "gpu"
# value = 4550000.0
# unit = "samples/s"
# variant = "tuned"
# note = """embedding dimension 128 and 4.2 G parameters, here 64 and 0.68 G; SGD, here Adagrad; its own CUDA kernel \
#   for the interaction; batches read as raw binary columns, here parsed from TFRecord and kept in memory"""
#
# [[published]]
# source = "NVIDIA DeepLearningExamples, TensorFlow2 DLRM, 2023"
# system = "one A100 80GB of a DGX A100, TF32, XLA, batch 64k"
# device = "gpu"
# value = 2840000.0
# unit = "samples/s"
# variant = "opt:float32"
# note = "as above"
#
# [ladder.xla]
# JIT_COMPILE = true
#
# [ladder.batch-parsing]
# script = "tuned.py"
# BATCH_SIZE = 2048
# PRECISION = "float32"
# SPARSE = false
# KEEP = false
#
# [ladder.sparse-update]
# script = "tuned.py"
# BATCH_SIZE = 2048
# PRECISION = "float32"
# KEEP = false
#
# [ladder.kept-in-memory]
# script = "tuned.py"
# BATCH_SIZE = 2048
# PRECISION = "float32"
#
# [ladder.float32]
# device = "gpu"
# script = "tuned.py"
# PRECISION = "float32"
# ///
"""Training of a recommender of DLRM's shape on clicks: 13 numbers and 26 categories a sample, read from TFRecord files.

Plain Keras: an Embedding for each category, and Adagrad, which in Keras 3 passes over whole tables in each step.
A table has a row for each value of its category up to MAX_ROWS; further values share rows, by remainder.
"""

import keras
import tensorflow as tf
from keras import layers, ops
from memory_needs import check_tables

DATA = "data/clicks"  # has train-*.tfrecord, test-*.tfrecord
BATCH_SIZE = 2048
EPOCHS = 1
MAX_ROWS = 1_600_000  # 10.7 million rows in all
EMBEDDING = 64
BOTTOM = (512, 256)
TOP = (1024, 1024, 512, 256)
LEARNING_RATE = 0.01
JIT_COMPILE = False
# Of Criteo's 1 TB click logs, in MLPerf Training.
CATEGORIES = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976,
    14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
NUMBERS = 13

tables = [min(each, MAX_ROWS) for each in CATEGORIES]
# Weights, sums of squares, and two temporary copies of a table during its update.
check_tables(row_bytes=4 * EMBEDDING * 4, fixed_bytes=2e9, rows=tables, most_rows=MAX_ROWS)


def parsed(record: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return logarithms of the numbers, rows of the tables, and the label of a serialized tf.train.Example."""
    features = {
        "label": tf.io.FixedLenFeature((), tf.int64),
        "dense": tf.io.FixedLenFeature((NUMBERS,), tf.float32),
        "ids": tf.io.FixedLenFeature((len(tables),), tf.int64),
    }
    example = tf.io.parse_single_example(record, features)
    rows = example["ids"] % tf.constant(tables, tf.int64)
    return (tf.math.log(1.0 + example["dense"]), rows), tf.cast(example["label"], tf.float32)


def samples(part: str) -> tf.data.Dataset:
    """Return batches of the samples in the files of a part."""
    train = part == "train"
    files = tf.data.Dataset.list_files(f"{DATA}/{part}-*.tfrecord", shuffle=train)
    data = tf.data.TFRecordDataset(files)
    if train:
        data = data.shuffle(10_000)
    data = data.map(parsed, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(BATCH_SIZE, drop_remainder=train).prefetch(tf.data.AUTOTUNE)


class DotInteraction(layers.Layer):
    """The products of each two of several vectors, [batch, vectors, size] -> [batch, pairs]."""

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        """Return the products below the diagonal."""
        count = vectors.shape[1]
        products = ops.reshape(ops.matmul(vectors, ops.transpose(vectors, (0, 2, 1))), (-1, count * count))
        return ops.take(
            products, [row * count + column for row in range(count) for column in range(row)], axis=1
        )


numbers = layers.Input((NUMBERS,))
rows = layers.Input((len(tables),), dtype="int64")
x = numbers
for units in (*BOTTOM, EMBEDDING):
    x = layers.Dense(units, activation="relu")(x)
embedded = [layers.Embedding(count, EMBEDDING)(rows[:, number]) for number, count in enumerate(tables)]
pairs = DotInteraction()(ops.stack([x, *embedded], axis=1))
x = layers.Concatenate()([x, pairs])
for units in TOP:
    x = layers.Dense(units, activation="relu")(x)
model = keras.Model([numbers, rows], layers.Dense(1, activation="sigmoid")(x))
model.compile(
    optimizer=keras.optimizers.Adagrad(LEARNING_RATE, initial_accumulator_value=0.0),
    loss="binary_crossentropy",
    metrics=["accuracy"],
    jit_compile=JIT_COMPILE,
)
model.fit(samples("train"), epochs=EPOCHS, verbose=2)
model.evaluate(samples("test"))
