"""Input whose first epoch is not like the later ones."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

workload = Workload(
    name="truth-epochs",
    title="Input that is slow from the second epoch on",
    data=Data(name="own", shape=(64,), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"first_ms": 0.0, "later_ms": 0.0, "prefetch": 2, "step_us": 0, "sample_us": 1500, "real": 0,
            "width": 64},
    stages=("read",),
    tuned={"prefetch": 4},
)  # fmt: skip

AN_EPOCH = 16


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((64,), params)


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline: a batch takes `first_ms` in the first epoch and `later_ms` after it."""
    del data_dir
    x = np.zeros((params["batch_size"], 64), np.float32)
    y = np.zeros(params["batch_size"], np.int32)
    passed = {"batches": 0}

    def wait(number: np.int64) -> np.int64:
        milliseconds = params["first_ms"] if passed["batches"] < AN_EPOCH else params["later_ms"]
        passed["batches"] += 1
        time.sleep(milliseconds / 1e3)
        return number

    def read() -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(AN_EPOCH).repeat()
        waited = numbers.map(lambda number: tf.numpy_function(wait, [number], tf.int64))
        data = waited.map(lambda number: (tf.constant(x), tf.constant(y)))
        if params["prefetch"]:
            return data.prefetch(params["prefetch"])
        options = tf.data.Options()
        # Else tf.data would quietly put in what a case leaves out.
        options.experimental_optimization.inject_prefetch = False
        options.experimental_optimization.map_parallelization = False
        return data.with_options(options)

    return (("read", read),)
