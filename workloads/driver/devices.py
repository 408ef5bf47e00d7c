"""Select TensorFlow's devices, verify that it uses them, and wait until they are idle."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.protocol import DEVICE_MEMORY, HOST_MEMORY, NoGpuError


def keep_programs(folder: str) -> None:
    """Let XLA keep the programs that it compiles in a folder, and load those that are there.

    Call this before TensorFlow looks for devices, which reads the flags. What was compiled with other XLA_FLAGS counts
    as the same program, so each script needs a folder of its own. XLA fails where it cannot write a program, because
    the disk is full or a program has constants of 2 GiB.
    """
    flags = f"--tf_xla_persistent_cache_directory={folder} --tf_xla_persistent_cache_device_types=GPU"
    os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flags}".strip()


def registered(device: str, gpus: int) -> list[str]:
    """Return TensorFlow's names of the requested devices; initialises nothing that a script may still set up.

    The container shows only these; see harness/run/trial_container.py.

    Raises:
        NoGpuError: fewer GPUs are registered than requested.
    """
    if device == "cpu":
        return ["CPU:0"]
    physical = tf.config.list_physical_devices("GPU")
    if len(physical) < max(gpus, 1):
        raise NoGpuError(
            f"TensorFlow {tf.__version__} registered {len(physical)} of {max(gpus, 1)} requested GPUs "
            "(its log above names the libraries that failed to load)."
        )
    return [f"GPU:{index}" for index in range(max(gpus, 1))]


def prove(names: Sequence[str]) -> None:
    """Verify on every GPU of `names` the placement and the result of a matrix product.

    Raises:
        NoGpuError: work was placed elsewhere, failed or had a wrong result.
    """
    gpus = [name for name in names if name.startswith("GPU")]
    if gpus and not tf.config.get_visible_devices("GPU"):
        raise NoGpuError("The script hides the GPUs, by tf.config.set_visible_devices. Leave that out.")
    soft = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    try:
        for name in gpus:
            with tf.device(name):
                ones = tf.ones((256, 256))
                product = tf.function(tf.linalg.matmul)(ones, ones)
            if not (ones.device.endswith(name) and product.device.endswith(name)):
                raise NoGpuError(f"Work for {name} was placed on {ones.device} and {product.device}.")
            if abs(float(product[0, 0]) - 256.0) > 1.0:
                raise NoGpuError(
                    f"A matrix product on {name} returned {float(product[0, 0])} instead of 256."
                )
    except tf.errors.OpError as error:
        raise NoGpuError(f"A matrix product on a GPU failed: {error.message}") from error
    finally:
        tf.config.set_soft_device_placement(soft)


def peak_memory(names: Sequence[str]) -> Mapping[str, float]:
    """Return the largest memory that this process has used, in bytes, as metrics."""
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


def facts(devices: Sequence[str]) -> dict[str, str | int]:
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
