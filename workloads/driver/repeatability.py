"""Whether a GPU computes the same again: a seeded product and a seeded training step, compared bit for bit.

A GPU that is hot or broken may compute something else without an error (C. Hochschild et al. 2021, "Cores that don't
count", HotOS; H. Dixit et al. 2021, "Silent Data Corruptions at Scale"). cuBLAS gives the same bits again on GPUs of
one architecture and number of multiprocessors, used from one stream, as TensorFlow does (cuBLAS documentation,
"Results Reproducibility"); of other operations only those are used whose result does not depend on the order of
additions. XLA is not: it may choose another algorithm for each GPU by timing them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import tensorflow as tf

from workloads.protocol import ANSWERS_CHECKED, ANSWERS_S, EventWriter, reason_of

# (rows, inner, columns): much work for few numbers, which are read back.
PRODUCT = (1024, 32768, 1024)
# Samples, inputs and width of a network with one hidden layer.
STEP = (512, 512, 1024)
SEED = 56

# The checksums of what a device computes: name -> CRC-32.
Compute = Callable[[str], Mapping[str, int]]


class Answers:
    """Compares what devices compute with what they have computed before, and writes each change.

    Args:
        names: TensorFlow's names of the devices.
        variant: what runs beside it, for the events.
        compute: returns the checksums of a device; raises tf.errors.ResourceExhaustedError if its memory is full.
    """

    def __init__(
        self, names: Sequence[str], variant: str, events: EventWriter, compute: Compute | None = None
    ) -> None:
        self._names = names
        self._variant = variant
        self._events = events
        self._compute = compute or Kept().checksums
        self._last: dict[tuple[int, str], int] = {}
        self._checked = 0
        self._seconds = 0.0

    def check(self) -> None:
        """Compute on each device, and write what differs from the last time, or is the first."""
        began = time.perf_counter()
        # All at once, so that none cools down meanwhile.
        with _tensor_float_32(), ThreadPoolExecutor(max(1, len(self._names))) as pool:
            results = list(pool.map(self._computed, self._names))
        for gpu, (t_ns, found) in enumerate(results):
            for what, value in found.items():
                self._checked += 1
                if self._last.get((gpu, what)) != value:
                    self._last[gpu, what] = value
                    self._events.write(
                        "answer", variant=self._variant, gpu=gpu, name=what, value=value, t_ns=t_ns
                    )
        self._seconds += time.perf_counter() - began

    def _computed(self, name: str) -> tuple[int, Mapping[str, int]]:
        with suppress(tf.errors.ResourceExhaustedError):  # a model may fill the memory
            return time.monotonic_ns(), self._compute(name)
        return time.monotonic_ns(), {}

    def end(self) -> None:
        """Write how many results were compared and how long that took."""
        if self._checked:
            self._events.metric(self._variant, ANSWERS_CHECKED, float(self._checked))
            self._events.metric(self._variant, ANSWERS_S, self._seconds)


def check(names: Sequence[str], variant: str, events: EventWriter) -> None:
    """Check GPUs twice: against themselves, and by the events against others; does nothing on CPUs."""
    if names[0].startswith("GPU"):
        answers = Answers(names, variant, events)
        try:
            answers.check()
            answers.check()
        except Exception as error:  # what was measured stands, whatever the script has done to TensorFlow
            events.warning(
                f"Whether the GPU computes the same again was not checked: {reason_of(str(error))}"
            )
        answers.end()


class Kept:
    """The seeded inputs on each device, which are kept there; about 200 MB."""

    def __init__(self) -> None:
        self._inputs: dict[str, tuple[tf.Tensor, ...]] = {}

    def checksums(self, name: str) -> Mapping[str, int]:
        """Return the checksums of a device's results."""
        with tf.device(name):
            if name not in self._inputs:
                self._inputs[name] = _seeded()
            left, right, *network = self._inputs[name]
            return {"product": checksum(tf.linalg.matmul(left, right)), "step": checksum(*_trained(*network))}


def _seeded() -> tuple[tf.Tensor, ...]:
    rows, inner, columns = PRODUCT
    samples, width, hidden = STEP
    shapes = (
        (rows, inner), (inner, columns),
        (samples, width), (samples, width), (width, hidden), (hidden, width),
    )  # fmt: skip
    drawn = [
        tf.random.stateless_normal(shape, [SEED, number], stddev=shape[0] ** -0.5)
        for number, shape in enumerate(shapes)
    ]
    return (*(tf.cast(each, tf.float16) for each in drawn[:2]), *drawn[2:])


def _trained(x: tf.Tensor, y: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return both matrices of a network after a step of gradient descent on the squared error."""
    with tf.GradientTape() as tape:
        tape.watch((first, second))
        loss = tf.reduce_sum(tf.square(tf.linalg.matmul(tf.nn.relu(tf.linalg.matmul(x, first)), second) - y))
    slopes = tape.gradient(loss, (first, second))
    return first - 0.01 * slopes[0], second - 0.01 * slopes[1]


def checksum(*tensors: tf.Tensor) -> int:
    """Return the CRC-32 of the bytes of tensors, which any single flipped bit changes."""
    result = 0
    for tensor in tensors:
        result = zlib.crc32(memoryview(tensor.numpy()).cast("B"), result)
    return result


@contextmanager
def _tensor_float_32() -> Iterator[None]:
    """Let float32 products use TF32, whatever a script or an earlier capability has chosen."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(True)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
