"""Check that the NVIDIA driver and the GPUs are new enough for the CUDA image."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from harness.errors import GpuError
from harness.model.platform import Gpu

# CUDA 12's minor-version compatibility: CUDA Compatibility guide, table 2 (Linux).
LEAST_DRIVER = "525.60.13"
# TensorFlow 2.21's wheels hold machine code for 6.0 to 9.0, and PTX of 9.0 for what is newer.
LEAST_CAPABILITY = "6.0"
LAST_COMPILED_CAPABILITY = "9.0"
# PTX goes through a driver of its own CUDA release or newer, and the image's libraries are of 12.9.
PTX_DRIVER = "575.51.03"


def check_driver(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return remarks on GPUs that work; raise GpuError if the driver or a GPU is too old."""
    remarks = []
    for gpu in gpus:
        if gpu.driver_version and Version(gpu.driver_version) < Version(LEAST_DRIVER):
            raise GpuError(
                f"The NVIDIA driver is {gpu.driver_version}; the CUDA 12 image needs {LEAST_DRIVER} or newer.",
                hint="Update the driver, use an image that supports it with --image cuda=REF, or use "
                "--device cpu.",
            )
        # An unknown capability passes.
        capability = Version(gpu.compute_capability or LEAST_CAPABILITY)
        if capability < Version(LEAST_CAPABILITY):
            raise GpuError(
                f"{gpu.name} has compute capability {capability}; TensorFlow's wheels need {LEAST_CAPABILITY} or "
                "newer.",
                hint="Use an image with an older TensorFlow (--image cuda=REF), or --device cpu.",
            )
        if capability.major > Version(LAST_COMPILED_CAPABILITY).major:
            remarks.append(
                f"TensorFlow has no machine code for {gpu.name} (compute capability {capability}): "
                f"the first run compiles for minutes, by driver {PTX_DRIVER} or newer; later ones use the cache."
            )
    return tuple(dict.fromkeys(remarks))
