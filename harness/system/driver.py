"""Check that the NVIDIA driver and the GPUs are new enough for the CUDA image."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from harness.errors import GpuError
from harness.model.platform import Gpu

# CUDA 12's minor-version compatibility: CUDA Compatibility guide, table 2 (Linux).
MIN_DRIVER = "525.60.13"
# TensorFlow 2.21's wheels contain machine code for 6.0 to 9.0, and 9.0 PTX for newer GPUs.
MIN_CAPABILITY = "6.0"
MAX_COMPILED_CAPABILITY = "9.0"
# Compiling PTX needs a driver of the same CUDA release or newer; the image's libraries are CUDA 12.9.
PTX_DRIVER = "575.51.03"


def check_driver(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return remarks on supported GPUs; raise GpuError if the driver or a GPU is too old."""
    remarks = []
    for gpu in gpus:
        if gpu.driver_version and Version(gpu.driver_version) < Version(MIN_DRIVER):
            raise GpuError(
                f"The NVIDIA driver is {gpu.driver_version}; the CUDA 12 image needs {MIN_DRIVER} or newer.",
                hint="Update the driver, use an image that supports it with --image cuda=REF, or use "
                "--device cpu.",
            )
        # An unknown capability is accepted.
        capability = Version(gpu.compute_capability or MIN_CAPABILITY)
        if capability < Version(MIN_CAPABILITY):
            raise GpuError(
                f"{gpu.name} has compute capability {capability}; TensorFlow's wheels need {MIN_CAPABILITY} or "
                "newer.",
                hint="Use an image with an older TensorFlow (--image cuda=REF), or --device cpu.",
            )
        if capability.major > Version(MAX_COMPILED_CAPABILITY).major:
            remarks.append(
                f"TensorFlow has no machine code for {gpu.name} (compute capability {capability}): "
                "the first run compiles it, which takes minutes and needs driver "
                f"{PTX_DRIVER} or newer; later runs use a cache."
            )
    return tuple(dict.fromkeys(remarks))
