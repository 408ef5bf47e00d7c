"""Find a GPU's device nodes and the driver's libraries on the host, for containers made without a toolkit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import psutil

from harness.engines import Mount
from harness.errors import GpuError
from harness.model.platform import Gpu

# Where single libraries are put in a container; NVIDIA's own images search it too.
CONTAINER_LIBRARIES = "/usr/local/nvidia/lib64"
# What libnvidia-container mounts for "compute" and "utility"; graphics and video stay out.
_LIBRARIES = (
    "libcuda.so*",
    "libcudadebugger.so*",
    "libnvidia-allocator.so*",
    "libnvidia-cfg.so*",
    "libnvidia-compiler.so*",
    "libnvidia-fatbinaryloader.so*",
    "libnvidia-gpucomp.so*",
    "libnvidia-ml.so*",
    "libnvidia-nvvm.so*",
    "libnvidia-nvvm70.so*",
    "libnvidia-pkcs11*.so*",
    "libnvidia-ptxjitcompiler.so*",
)
_LIBRARIES_HINT = (
    "Install the driver's compute libraries (libnvidia-compute or nvidia-driver-cuda), or name the folder that "
    "has them in LD_LIBRARY_PATH."
)


def device_nodes(gpus: Sequence[Gpu], root: Path) -> tuple[str, ...]:
    """Return the device nodes that a container needs for these GPUs, and no other GPU's.

    Raises:
        GpuError: one is not there, or is a MIG instance's; the message names it.
    """
    for gpu in gpus:
        if gpu.mig_uuid or gpu.minor_number is None:
            raise GpuError(
                f"the device nodes of {gpu.cuda_id} are not known",
                hint="Install the NVIDIA Container Toolkit, which knows them.",
            )
    nodes = [*(f"/dev/nvidia{gpu.minor_number}" for gpu in gpus), "/dev/nvidiactl", "/dev/nvidia-uvm"]
    for node in nodes:
        if not (root / node.lstrip("/")).exists():
            raise GpuError(
                f"device node {node} is missing",
                hint="Create it: sudo nvidia-modprobe -u -c 0, or run nvidia-smi as root once.",
            )
    return tuple(nodes)


def driver_folder() -> Path:
    """Return the folder of the driver's libraries: where the dynamic linker finds NVML, its CUDA library is too.

    Raises:
        GpuError: the dynamic linker finds no NVML.
    """
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise GpuError(f"the driver's library cannot be loaded: {error}", hint=_LIBRARIES_HINT) from error
    loaded = (Path(library.path) for library in psutil.Process().memory_maps())
    return next(path.parent for path in loaded if path.name.startswith("libnvidia-ml.so"))


def driver_mounts(folder: Path) -> tuple[Mount, ...]:
    """Return the mounts that bring the driver's libraries into a container, at CONTAINER_LIBRARIES.

    Only these files are mounted: a system folder's C library in front of the image's would break it.

    Args:
        folder: the host's.

    Raises:
        GpuError: there is no libcuda.so.1.
    """
    if not (folder / "libcuda.so.1").exists():
        raise GpuError(f"{folder} has the driver's NVML and no libcuda.so.1", hint=_LIBRARIES_HINT)
    files = sorted({file for pattern in _LIBRARIES for file in folder.glob(pattern)})
    return tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
