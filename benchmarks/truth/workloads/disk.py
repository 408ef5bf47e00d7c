"""Training on records read from the disk itself: what was read leaves the page cache at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

SHAPE = (64, 64, 3)
RECORD_BYTES = 64 * 64 * 3
HEADER_BYTES = 128  # of a .npy file of this shape

workload = Workload(
    name="truth-disk",
    title="Records from the disk, uncached unless `drop` is 0",
    data=Data(name="own", shape=(64, 64, 3), classes=10, train=1024, test=16),
    batch_size=64,
    epochs=1,
    params={"drop": 1, "prefetch": 2, "step_us": 0, "sample_us": 400},
    stages=("read", "batch"),
    tuned={"prefetch": 4},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled(SHAPE, {**params, "real": 0})


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    path = Path(data_dir) / "x_train.npy"
    signature = (tf.TensorSpec(SHAPE, tf.uint8), tf.TensorSpec((), tf.int32))
    # A block at a time, as a record reader's buffer: single records would be at the mercy of readahead.
    block = 16 * RECORD_BYTES
    if not params["drop"]:
        path.read_bytes()  # so that the page cache has it from the first epoch on

    def read() -> Iterator[tuple]:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        blocks = (os.fstat(descriptor).st_size - HEADER_BYTES) // block
        while True:
            for index in range(blocks):
                start = HEADER_BYTES + index * block
                data = np.frombuffer(os.pread(descriptor, block, start), np.uint8)
                if params["drop"]:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                for record in data.reshape(-1, *SHAPE):
                    yield record, np.int32(0)

    return (
        ("read", lambda: tf.data.Dataset.from_generator(read, output_signature=signature)),
        (
            "batch",
            lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(
                params["prefetch"]
            ),
        ),
    )
