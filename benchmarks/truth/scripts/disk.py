# /// tfbench
# [data]
# name = "truth-disk"
# shape = [64, 64, 3]
# classes = 10
# train = 1024
# test = 16
# constant = "DATA"
# ///
"""Records from disk for a simulated accelerator; DROP drops them from the page cache at once."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator

DATA = ""
DROP = True
BATCH_SIZE = 64
PREFETCH = 2
SAMPLE_US = 400
STEPS = 100_000

HEADER, SHAPE = 128, (64, 64, 3)
path, record = Path(DATA, "x_train.npy"), np.zeros(SHAPE, np.uint8)
# One block at a time, like a record reader's buffer: the speed of single records depends on readahead.
block = 16 * record.nbytes
if not DROP:
    path.read_bytes()  # fills the page cache


def read() -> Iterator[tuple]:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    blocks = (os.fstat(descriptor).st_size - HEADER) // block
    while True:
        for index in range(blocks):
            data = np.frombuffer(os.pread(descriptor, block, HEADER + index * block), np.uint8)
            if DROP:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for image in data.reshape(-1, *SHAPE):
                yield image, np.int32(0)


signature = (tf.TensorSpec(SHAPE, tf.uint8), tf.TensorSpec((), tf.int32))
dataset = tf.data.Dataset.from_generator(read, output_signature=signature)
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(PREFETCH)

model = SimulatedAccelerator(step_us=0, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
