"""Text parsed by a Python generator."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator, dense

FIELDS = 1000
BATCH_SIZE = 8
PREFETCH = 2
STEP_US = 0
SAMPLE_US = 3000
WIDTH = 0  # units of a real network; 0 for the simulated accelerator
STEPS = 100_000

line = ",".join(f"{number:.6f}" for number in np.random.default_rng(1).random(FIELDS))


def generate() -> Iterator[tuple]:
    while True:
        fields = [float(field) for field in line.split(",")]
        yield np.resize(np.asarray(fields, np.float32), 64), np.int32(0)


signature = (tf.TensorSpec((64,), tf.float32), tf.TensorSpec((), tf.int32))
dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(PREFETCH)

model = dense(WIDTH) if WIDTH else SimulatedAccelerator(step_us=STEP_US, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
