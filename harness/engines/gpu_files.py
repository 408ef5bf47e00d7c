"""Find GPU device nodes and driver libraries, for containers without NVIDIA's toolkit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import psutil

from harness.engines import Mount
from harness.errors import GpuError
from harness.model.platform import Gpu

# Folder in a container; NVIDIA's images search it too.
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
    "Install the driver's compute libraries (libnvidia-compute or nvidia-driver-cuda), or add their folder "
    "to LD_LIBRARY_PATH."
)


def device_nodes(gpus: Sequence[Gpu], root: Path) -> tuple[str, ...]:
    """Return the device nodes of these GPUs; raise GpuError if one is missing or is a MIG instance."""
    for gpu in gpus:
        if gpu.mig_uuid or gpu.minor_number is None:
            raise GpuError(
                f"the device nodes of {gpu.cuda_id} are unknown",
                hint="Install the NVIDIA Container Toolkit.",
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
    """Return the folder in which the dynamic linker finds NVML; raise GpuError if there is none."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise GpuError(f"cannot load the driver's library: {error}", hint=_LIBRARIES_HINT) from error
    loaded = (Path(library.path) for library in psutil.Process().memory_maps())
    return next(path.parent for path in loaded if path.name.startswith("libnvidia-ml.so"))


def driver_mounts(folder: Path) -> tuple[Mount, ...]:
    """Return mounts of the driver's libraries in `folder`; raise GpuError if libcuda.so.1 is missing.

    The whole folder cannot be mounted: the host's C library, if in it, would break the container.
    """
    if not (folder / "libcuda.so.1").exists():
        raise GpuError(f"{folder} contains NVML but no libcuda.so.1", hint=_LIBRARIES_HINT)
    files = sorted({file for pattern in _LIBRARIES for file in folder.glob(pattern)})
    return tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
