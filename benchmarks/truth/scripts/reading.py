"""Records from storage and a bus with limited throughput, for a simulated accelerator."""

import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator

BATCH_SIZE = 8
STORE_BYTES_PER_S = 1e6
CREDIT_BYTES = 0  # burst credit: bytes at full speed before the limit applies
BUS_BYTES_PER_S = 0.0  # throughput of a serial copy to the device; 0 for no copy
PREFETCH = 2
STEP_US = 0
SAMPLE_US = 3000
STEPS = 100_000

record = np.random.default_rng(1).random(4096).astype(np.float32)


class Store:
    """Storage with limited throughput after the first CREDIT_BYTES."""

    def __init__(self) -> None:
        self._credit = CREDIT_BYTES
        self._due = self._served = 0.0

    def take(self, count: int) -> None:
        """Wait until `count` more bytes are available."""
        if self._credit >= count:
            self._credit -= count
            return
        now = time.monotonic()
        # Back-to-back calls keep a schedule, so that inaccurate sleeps do not add up. Idle time earns no
        # credit.
        start = self._due if now - self._served < 0.001 else now
        self._due = start + count / STORE_BYTES_PER_S
        if self._due > now:
            time.sleep(self._due - now)
        self._served = time.monotonic()


store = Store()


def read() -> Iterator[tuple]:
    while True:
        store.take(record.nbytes)
        yield record, np.int32(0)


def wait(x: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    time.sleep(float(seconds))
    return x


def copy(x: tf.Tensor, y: tf.Tensor) -> tuple:
    if BUS_BYTES_PER_S == 0:
        return x, y
    seconds = tf.cast(tf.size(x) * 4, tf.float64) / BUS_BYTES_PER_S
    copied = tf.numpy_function(wait, [x, seconds], tf.float32)
    copied.set_shape(x.shape)
    return copied, y


signature = (tf.TensorSpec(record.shape, tf.float32), tf.TensorSpec((), tf.int32))
batches = tf.data.Dataset.from_generator(read, output_signature=signature)
batches = batches.batch(BATCH_SIZE, drop_remainder=True)
if PREFETCH:
    batches = batches.prefetch(PREFETCH)
options = tf.data.Options()
# Otherwise tf.data silently adds the prefetch that a case leaves out.
options.experimental_optimization.inject_prefetch = False
dataset = batches.map(copy).with_options(options)

model = SimulatedAccelerator(step_us=STEP_US, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
