"""Training of published.py's network with one table, of which a step reads and updates only the rows of its batch.

All tables are one variable. The gradients of a batch are summed for each different row, then Adagrad updates these
rows and their sums of squares, as Keras' does. XLA compiles the dense network with its update; gathers and the update
of rows are TensorFlow's, because the number of different rows is not known before.

Files are read in parallel and parsed a batch at a time. Batches are kept in memory, 160 bytes a sample, and shuffled
as a whole from the second epoch on. On GPUs batches are large and products are in bfloat16; the table is float32.
"""

import keras
import tensorflow as tf
from keras import layers, ops
from memory_needs import check_tables

GPU = bool(tf.config.get_visible_devices("GPU"))
DATA = "data/clicks"  # has train-*.tfrecord, test-*.tfrecord
BATCH_SIZE = 65536 if GPU else 4096
EPOCHS = 1
MAX_ROWS = 1_600_000  # 10.7 million rows in all
EMBEDDING = 64
BOTTOM = (512, 256)
TOP = (1024, 1024, 512, 256)
LEARNING_RATE = 0.01
PRECISION = "mixed_bfloat16" if GPU else "float32"
JIT_COMPILE = GPU  # of the dense network
SPARSE = True  # whether only the rows of a batch are updated, instead of the whole table
KEEP = True  # whether parsed batches are kept in memory
# Of Criteo's 1 TB click logs, in MLPerf Training.
CATEGORIES = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976,
    14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
NUMBERS = 13

keras.mixed_precision.set_global_policy(PRECISION)

tables = [min(each, MAX_ROWS) for each in CATEGORIES]
# The first row of each in the common table.
starts = [sum(tables[:number]) for number in range(len(tables))]
# Weights and sums of squares; rows, their gradients and these for different rows of a batch, and activations.
check_tables(
    row_bytes=(2 if SPARSE else 4) * EMBEDDING * 4,
    fixed_bytes=1e9 + BATCH_SIZE * (8 * len(tables) * EMBEDDING * 4 + 20 * sum(TOP)),
    rows=tables,
    most_rows=MAX_ROWS,
)


def parsed(records: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return logarithms of the numbers, rows of the common table, and labels of a batch of tf.train.Example."""
    features = {
        "label": tf.io.FixedLenFeature((), tf.int64),
        "dense": tf.io.FixedLenFeature((NUMBERS,), tf.float32),
        "ids": tf.io.FixedLenFeature((len(tables),), tf.int64),
    }
    examples = tf.io.parse_example(records, features)
    rows = examples["ids"] % tf.constant(tables, tf.int64) + tf.constant(starts, tf.int64)
    return (tf.math.log(1.0 + examples["dense"]), tf.cast(rows, tf.int32)), tf.cast(
        examples["label"], tf.float32
    )


def samples(part: str) -> tf.data.Dataset:
    """Return batches of the samples in the files of a part."""
    train = part == "train"
    files = tf.data.Dataset.list_files(f"{DATA}/{part}-*.tfrecord", shuffle=train)
    data = files.interleave(
        tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not train
    ).batch(BATCH_SIZE, drop_remainder=train)
    data = data.map(parsed, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not train)
    if train and KEEP:
        data = data.cache().shuffle(1024)
    return data.prefetch(tf.data.AUTOTUNE)


class DotInteraction(layers.Layer):
    """The products of each two of several vectors, [batch, vectors, size] -> [batch, pairs]."""

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        """Return the products below the diagonal."""
        count = vectors.shape[1]
        products = ops.reshape(tf.matmul(vectors, vectors, transpose_b=True), (-1, count * count))
        return ops.take(
            products, [row * count + column for row in range(count) for column in range(row)], axis=1
        )


class Recommender(keras.Model):
    """Train `network`, which takes numbers and rows of a table, and the rows that it takes."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__()
        self.network = network
        shape = (sum(tables), EMBEDDING)
        self.table = self.add_weight(shape, "uniform", "float32", trainable=not SPARSE, autocast=False)
        self.squares = self.add_weight(shape, "zeros", "float32", trainable=False) if SPARSE else None
        self.built = True

    def compile(self, *args: object, **settings: object) -> None:
        """Compile as usual, and create the optimizer's variables, which must exist before XLA compiles the update."""
        super().compile(*args, **settings)
        self.optimizer.build(self.trainable_variables)

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Return the probabilities of a click, [batch, 1]."""
        numbers, rows = inputs
        return self.network((numbers, tf.gather(self.table.value, rows)), training=training)

    def train_step(self, data: tuple) -> dict:
        """Train on a batch; return the metrics."""
        if not SPARSE:
            return super().train_step(data)
        (numbers, rows), labels = data
        embedded = tf.gather(self.table.value, rows)
        slopes, loss, probabilities = self.dense_step(numbers, embedded, labels)
        self.update(tf.reshape(rows, [-1]), tf.reshape(slopes, [-1, EMBEDDING]))
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(labels)[0])
        return self.compute_metrics(numbers, labels, probabilities)

    @tf.function(jit_compile=JIT_COMPILE, autograph=False)
    def dense_step(
        self, numbers: tf.Tensor, embedded: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Update the network; return the gradient of the rows, the loss, and the probabilities."""
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            probabilities = self.network((numbers, embedded), training=True)
            loss = self.compute_loss(y=labels, y_pred=probabilities, training=True)
        *slopes, of_rows = tape.gradient(loss, [*self.trainable_variables, embedded])
        self.optimizer.apply(slopes)
        return of_rows, loss, probabilities

    def update(self, rows: tf.Tensor, slopes: tf.Tensor) -> None:
        """Update different rows once each with the sum of their gradients, as Keras' Adagrad does."""
        different, places = tf.unique(rows)
        sums = tf.math.unsorted_segment_sum(slopes, places, tf.size(different))
        squares, table = self.squares.value, self.table.value
        squares.scatter_add(tf.IndexedSlices(tf.square(sums), different))
        scale = tf.sqrt(tf.gather(squares, different) + self.optimizer.epsilon)
        table.scatter_sub(tf.IndexedSlices(self.optimizer.learning_rate * sums / scale, different))


numbers, embedded = layers.Input((NUMBERS,)), layers.Input((len(tables), EMBEDDING))
x = numbers
for units in (*BOTTOM, EMBEDDING):
    x = layers.Dense(units, activation="relu")(x)
pairs = DotInteraction()(ops.concatenate([x[:, None], ops.cast(embedded, x.dtype)], axis=1))
x = layers.Concatenate()([x, pairs])
for units in TOP:
    x = layers.Dense(units, activation="relu")(x)
network = keras.Model([numbers, embedded], layers.Dense(1, activation="sigmoid", dtype="float32")(x))

model = Recommender(network)
model.compile(
    optimizer=keras.optimizers.Adagrad(LEARNING_RATE, initial_accumulator_value=0.0),
    loss="binary_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # dense_step is compiled
)
model.fit(samples("train"), epochs=EPOCHS, verbose=2)
model.evaluate(samples("test"))
