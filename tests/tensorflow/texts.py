"""Short scripts, as users write them."""

# Two classes of four features.
HEAD = """
import keras
import numpy as np
import tensorflow as tf

BATCH_SIZE = 8
EPOCHS = 1
x = np.random.default_rng(0).random((100, 4), np.float32)
y = (x[:, 0] > 0.5).astype("int32")


def made(**settings):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2, activation="softmax")])
    model.compile(**{"optimizer": "sgd", "loss": "sparse_categorical_crossentropy", **settings})
    return model
"""
FIT = HEAD + "made().fit(x, y, batch_size=BATCH_SIZE, epochs=EPOCHS)\n"
# A pipeline of four stages; a test replaces RANGE and BATCHING.
PIPED = """
import keras
import tensorflow as tf

BATCH_SIZE = 4


def spread(i):
    return tf.fill([3], tf.cast(i % 2, tf.float32)), i % 2


data = tf.data.Dataset.RANGE.map(spread)BATCHING
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), steps_per_execution=CALLS)
model.fit(data, epochs=EPOCHS, steps_per_epoch=STEPS)
print("Keras ran steps:", int(model.optimizer.iterations))
"""


def piped(
    source: str = "range(400)",
    batching: str = ".batch(BATCH_SIZE, drop_remainder=True)",
    *,
    epochs: int = 1,
    steps: int | None = None,
    calls: int = 1,
) -> str:
    """Return PIPED with these parts."""
    text = PIPED.replace("RANGE", source).replace("BATCHING", batching).replace("CALLS", str(calls))
    return text.replace("EPOCHS", str(epochs)).replace("STEPS", str(steps))
