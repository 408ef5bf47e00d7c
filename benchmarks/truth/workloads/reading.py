"""Training on records from a store, and over a bus, of known speed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

FIELDS = 4096
RECORD_BYTES = 4 * FIELDS
AT_ONCE_S = 0.001

workload = Workload(
    name="truth-reading",
    title="Records from a store of limited speed",
    data=Data(name="own", shape=(4096,), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={
        "store_bytes_per_s": 1e6,
        "credit_bytes": 0,  # what the store gives at full speed before its limit holds, as burst credit
        "bus_bytes_per_s": 0.0,  # of the copy to the device, which nothing overlaps; 0 for no such copy
        "prefetch": 2,
        "step_us": 0,
        "sample_us": 3000,
    },
    stages=("read", "batch", "copy"),
    tuned={"prefetch": 4},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((FIELDS,), {**params, "real": 0})


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    record = np.random.default_rng(1).random(FIELDS).astype(np.float32)
    store = Store(params["store_bytes_per_s"], params["credit_bytes"])

    def read() -> Iterator[tuple]:
        while True:
            store.take(RECORD_BYTES)
            yield record, np.int32(0)

    def copy(x: tf.Tensor, y: tf.Tensor) -> tuple:
        if params["bus_bytes_per_s"] == 0:
            return x, y
        seconds = tf.cast(tf.size(x) * 4, tf.float64) / params["bus_bytes_per_s"]
        copied = tf.numpy_function(sleep, [x, seconds], tf.float32)
        copied.set_shape(x.shape)
        return copied, y

    signature = (tf.TensorSpec((FIELDS,), tf.float32), tf.TensorSpec((), tf.int32))

    def batch(before: tf.data.Dataset) -> tf.data.Dataset:
        batches = before.batch(params["batch_size"], drop_remainder=True)
        return batches.prefetch(params["prefetch"]) if params["prefetch"] else batches

    def unhelped(before: tf.data.Dataset) -> tf.data.Dataset:
        options = tf.data.Options()
        # Else tf.data would quietly put in the prefetch that a case leaves out.
        options.experimental_optimization.inject_prefetch = False
        return before.map(copy).with_options(options)

    return (
        ("read", lambda: tf.data.Dataset.from_generator(read, output_signature=signature)),
        ("batch", batch),
        ("copy", unhelped),
    )


def sleep(x: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Wait as a copy of known length does, without the CPU."""
    time.sleep(float(seconds))
    return x


class Store:
    """A store of limited speed; `credit` bytes come at once before the limit holds."""

    def __init__(self, bytes_per_s: float, credit: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._credit = credit
        self._due = self._served = 0.0

    def take(self, count: int) -> None:
        """Return when `count` more bytes are there."""
        if self._credit >= count:
            self._credit -= count
            return
        now = time.monotonic()
        # Asked again at once it keeps to its schedule, so that inaccurate sleeps do not add up; a while in
        # which nobody asked earns nothing.
        start = self._due if now - self._served < AT_ONCE_S else now
        self._due = start + count / self._bytes_per_s
        if self._due > now:
            time.sleep(self._due - now)
        self._served = time.monotonic()
