"""Find GPUs' device nodes and the driver's libraries, for containers without the toolkit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import psutil

from harness.engines import Mount
from harness.errors import GpuError
from harness.model.platform import Gpu

# In a container; NVIDIA's own images search it too.
CONTAINER_LIBRARIES = "/usr/local/nvidia/lib64"
# What libnvidia-container mounts for "compute" and "utility".
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
    """Return the device nodes of these GPUs; raise GpuError if one is missing or a MIG instance's."""
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
    """Return the folder in which the dynamic linker finds NVML; raise GpuError if it does not."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise GpuError(f"the driver's library cannot be loaded: {error}", hint=_LIBRARIES_HINT) from error
    loaded = (Path(library.path) for library in psutil.Process().memory_maps())
    return next(path.parent for path in loaded if path.name.startswith("libnvidia-ml.so"))


def driver_mounts(folder: Path) -> tuple[Mount, ...]:
    """Return mounts of the driver's libraries in `folder`; raise GpuError without libcuda.so.1.

    The whole folder may contain the host's C library, which would break the container.
    """
    if not (folder / "libcuda.so.1").exists():
        raise GpuError(f"{folder} has the driver's NVML and no libcuda.so.1", hint=_LIBRARIES_HINT)
    files = sorted({file for pattern in _LIBRARIES for file in folder.glob(pattern)})
    return tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
