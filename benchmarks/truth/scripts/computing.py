"""Real training: dense layers on samples in memory, a table of ROWS, or images of SIDE pixels."""

import numpy as np
import tensorflow as tf

BATCH_SIZE = 256
WIDTH = 1024
DEPTH = 3
ROWS = 0
SIDE = 0
PRECISION = "float32"
CPU_LAYER = False  # one more dense layer, placed on the CPU
STEPS = 1_000_000

COLUMNS, STRIDE = 1024, 64
layers = tf.keras.layers
tf.keras.config.set_dtype_policy(PRECISION)


class DenseOnCpu(layers.Dense):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            return super().call(x)


class Table(layers.Layer):
    """Scale a table of ROWS x COLUMNS by each sample's first number and take the mean of its squares.

    Only element-wise operations and a sum, which are limited by memory bandwidth on any device.
    """

    def build(self, shape: tuple) -> None:
        del shape
        self.table = self.add_weight(shape=(ROWS, COLUMNS), initializer="ones", trainable=True)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32[batch, 1]; each sample reads the whole table."""
        means = tf.map_fn(
            lambda sample: tf.reduce_mean(tf.square(self.table * sample[0])), x, parallel_iterations=1
        )
        return means[:, tf.newaxis]


if SIDE:
    shape = (SIDE, SIDE, 4)
    # Reads every 64th pixel of each row and column.
    inner = [layers.Conv2D(16, 1, strides=STRIDE, activation="relu"), layers.Flatten()]
    # Repeats one batch, which costs the host nothing.
    batch = np.zeros((BATCH_SIZE, *shape), np.float32), np.zeros(BATCH_SIZE, np.int32)
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
else:
    shape = (32,)
    inner = [Table()] if ROWS else [layers.Dense(WIDTH, activation="relu") for _ in range(DEPTH)]
    random = np.random.default_rng(1)
    samples = random.random((8192, *shape), np.float32), random.integers(0, 10, 8192).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices(samples).repeat()
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(2)

inner += [DenseOnCpu(WIDTH)] if CPU_LAYER else []
model = tf.keras.Sequential([layers.Input(shape), *inner, layers.Dense(10, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
