"""Select TensorFlow's devices, verify that it uses them, and wait until they are idle."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.protocol import DEVICE_MEMORY, HOST_MEMORY, NoGpuError


def select(device: str, gpus: int) -> list[str]:
    """Make only the requested devices visible to TensorFlow; runs no operation, as strategies require.

    Raises:
        NoGpuError: fewer GPUs are registered than requested.
    """
    physical = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        if physical:
            tf.config.set_visible_devices([], "GPU")
        return ["CPU:0"]
    if len(physical) < max(gpus, 1):
        raise NoGpuError(
            f"TensorFlow {tf.__version__} registered {len(physical)} of {max(gpus, 1)} requested GPUs "
            "(its log above names the libraries that failed to load)."
        )
    used = physical[: max(gpus, 1)]
    tf.config.set_visible_devices(used, "GPU")
    for gpu in used:
        # Otherwise TensorFlow allocates the whole GPU at once and memory telemetry is meaningless.
        tf.config.experimental.set_memory_growth(gpu, True)
    return [f"GPU:{index}" for index in range(len(used))]


def prove(names: list[str]) -> None:
    """Verify on every GPU of `names` the placement of a variable and the result of a matrix product.

    Raises:
        NoGpuError: work was placed elsewhere, failed or had a wrong result.
    """
    soft = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    try:
        for name in filter(lambda name: name.startswith("GPU"), names):
            with tf.device(name):
                variable = tf.Variable(tf.ones((256, 256)))
                product = tf.function(tf.linalg.matmul)(variable, variable)
            if not (variable.device.endswith(name) and product.device.endswith(name)):
                raise NoGpuError(f"Work for {name} was placed on {variable.device} and {product.device}.")
            if abs(float(product[0, 0]) - 256.0) > 1.0:
                raise NoGpuError(
                    f"A matrix product on {name} returned {float(product[0, 0])} instead of 256."
                )
    except tf.errors.OpError as error:
        raise NoGpuError(f"A matrix product on a GPU failed: {error.message}") from error
    finally:
        tf.config.set_soft_device_placement(soft)


def reset_peak_memory(names: Sequence[str]) -> None:
    """Begin to record anew how much memory is in use at most."""
    for name in names:
        if name.startswith("GPU"):
            tf.config.experimental.reset_memory_stats(name)
    with suppress(OSError):  # a container may not allow it: then the peak is that of the whole process so far
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(names: Sequence[str]) -> Mapping[str, float]:
    """Return the largest memory in use since `reset_peak_memory`, in bytes, as metrics."""
    peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in names if name.startswith("GPU")]
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    host = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    return {HOST_MEMORY: host, **({DEVICE_MEMORY: max(peaks)} if peaks else {})}


def synchronise() -> None:
    """Wait until all devices are idle."""
    tf.test.experimental.sync_devices()


def touch(element: Any, names: Sequence[str]) -> Any:
    """Copy each device's share of a batch to it, by reading one element there.

    Args:
        element: tensors of one batch, split by rows as in MirroredStrategy.
        names: device names; () to copy nothing.
    """
    tensors = [part for part in tf.nest.flatten(element) if part.dtype.is_floating or part.dtype.is_integer]
    values = []
    for index, name in enumerate(names if tensors else ()):
        shares = [_share(part, index, len(names)) for part in tensors]
        with tf.device(name):
            values.append(tf.add_n([tf.cast(tf.reshape(share, [-1])[0], tf.float32) for share in shares]))
    return tf.add_n(values) if values else 0.0


def _share(part: Any, index: int, devices: int) -> Any:
    if devices == 1 or part.shape.rank == 0:
        return part
    with tf.device("CPU:0"):
        count = tf.shape(part)[0]
        rows = -(-count // devices)
        # A short batch may leave no rows for the last device, which then gets the last row.
        start = tf.minimum(index * rows, count - 1)
        return part[start : start + rows]


def facts(devices: list[str]) -> dict[str, str | int]:
    """Return the versions and devices that this process uses; scalars only."""
    build = tf.sysconfig.get_build_info()
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": metadata.version("keras"),
        "numpy": np.__version__,
        "cuda": str(build.get("cuda_version", "")),
        "cudnn": str(build.get("cudnn_version", "")),
        "devices": " ".join(devices),
        "cpus_visible": len(os.sched_getaffinity(0)),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
