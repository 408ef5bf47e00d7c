"""A small regression that appends its loss to a file every LOG_EVERY batches."""

import json
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

LOG_EVERY = 20
STEPS_PER_EXECUTION = 1

x = np.random.rand(20_000, 8).astype("float32")
y = x @ np.arange(8, dtype="float32")
train = tf.data.Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True).cache().repeat()
log = pathlib.Path(tempfile.mkdtemp()) / "loss.jsonl"


def append(batch, logs):
    if (batch + 1) % LOG_EVERY == 0:
        with log.open("a") as file:
            file.write(
                json.dumps({"batch": batch, **{name: float(value) for name, value in logs.items()}}) + "\n"
            )


model = tf.keras.Sequential(
    [tf.keras.Input((8,)), tf.keras.layers.Dense(16, "tanh"), tf.keras.layers.Dense(1)]
)
model.compile("sgd", "mse", steps_per_execution=STEPS_PER_EXECUTION)
callback = tf.keras.callbacks.LambdaCallback(on_train_batch_end=append)
model.fit(train.prefetch(8), steps_per_epoch=10_000, epochs=20, verbose=2, callbacks=[callback])
