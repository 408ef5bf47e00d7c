"""Check that TensorFlow uses a device, and measure its matrix product throughput.

`python3 -m workloads.driver.probe cpu` or `python3 -m workloads.driver.probe gpu 2` prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence

import tensorflow as tf

from workloads.driver import devices
from workloads.protocol import NO_GPU_EXIT, NoGpuError

# Side of the square matrices: large enough to saturate a GPU, small enough for two cores.
GPU_SIZE = 8192
CPU_SIZE = 1024
PRODUCTS = 10
MEASURE_S = 1.0


def tflops(device: str, dtype: str, *, size: int, seconds: float = MEASURE_S) -> float:
    """Return the best rate of a chain of matrix products, in TFLOPS.

    The matrices are random, because zeros draw less power and let GPUs clock higher than under real load.
    """
    with tf.device(device):
        left = tf.cast(tf.random.normal((size, size)), dtype)
        # Keeps the variance of the product at 1, so that half precision does not overflow.
        right = tf.cast(tf.random.normal((size, size), stddev=size**-0.5), dtype)

        @tf.function(autograph=False)
        def chain(value: tf.Tensor) -> tf.Tensor:
            for _ in range(PRODUCTS):
                value = tf.linalg.matmul(value, right)
            return value

        chain(left)
        devices.synchronise()
        best_s = float("inf")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            start = time.monotonic()
            chain(left)
            devices.synchronise()
            best_s = min(best_s, time.monotonic() - start)
    return 2.0 * size**3 * PRODUCTS / best_s / 1e12


def rates(device: str) -> Mapping[str, float]:
    """Return device_fp32_tflops (TF32 if supported) and, on a GPU, also fp16 and bf16."""
    gpu = device.startswith("GPU")
    size = GPU_SIZE if gpu else CPU_SIZE
    # Half precision is emulated on CPUs.
    types = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"} if gpu else {"fp32": "float32"}
    return {f"device_{name}_tflops": tflops(device, dtype, size=size) for name, dtype in types.items()}


def main(arguments: Sequence[str]) -> int:
    """Print the rates as one JSON line and return the exit code."""
    device = arguments[0] if arguments else "cpu"
    gpus = int(arguments[1]) if len(arguments) > 1 else 1
    try:
        names = devices.select(device, gpus if device == "gpu" else 0)
        devices.prove(names)
    except NoGpuError as error:
        sys.stdout.write(json.dumps({"ok": False, "message": str(error)}) + "\n")
        return NO_GPU_EXIT
    answer = {"ok": True, "message": "", "rates": {name: rates(name) for name in names}}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
