"""Find a GPU's device nodes and the driver's libraries on the host, for containers made without a toolkit."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path

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
    """Return the device nodes that a container needs for these GPUs or MIG instances, and no other GPU's.

    Raises:
        GpuError: one is not there; the message names it.
    """
    for gpu in gpus:
        if gpu.minor_number is None:
            raise GpuError(
                f"NVML does not say which device node is {gpu.uuid}",
                hint="Update the driver, or install the NVIDIA Container Toolkit.",
            )
    nodes = [f"/dev/nvidia{gpu.minor_number}" for gpu in gpus]
    nodes += ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    for gpu in gpus:
        nodes += _capabilities(gpu, root)
    for node in nodes:
        if not (root / node.lstrip("/")).exists():
            raise GpuError(
                f"device node {node} is missing",
                hint="Create it: sudo nvidia-modprobe -u -c 0, or run nvidia-smi as root once.",
            )
    if (root / "dev/nvidia-uvm-tools").exists():
        nodes.append("/dev/nvidia-uvm-tools")
    return tuple(dict.fromkeys(nodes))


def driver_folder() -> Path:
    """Return the folder of the driver's libraries: where the dynamic linker finds NVML, its CUDA library is too.

    Raises:
        GpuError: the dynamic linker finds no NVML.
    """
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise GpuError(f"the driver's library cannot be loaded: {error}", hint=_LIBRARIES_HINT) from error
    # proc(5): the path is a line's sixth field.
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(Path(line.split(None, 5)[5]).parent for line in lines if "/libnvidia-ml.so" in line)


def driver_mounts(folder: Path) -> tuple[tuple[Mount, ...], str]:
    """Return the mounts that bring the driver's libraries into a container, and their folder there.

    A folder of the driver's own is mounted whole. From a system folder only the driver's files are, one
    by one: the host's C library in front of the image's would break it.

    Args:
        folder: the host's.

    Raises:
        GpuError: there is no libcuda.so.1.
    """
    if not (folder / "libcuda.so.1").exists():
        raise GpuError(f"{folder} has the driver's NVML and no libcuda.so.1", hint=_LIBRARIES_HINT)
    files = sorted({file for pattern in _LIBRARIES for file in folder.glob(pattern)})
    own = any("nvidia" in part for part in folder.parts)
    if own and all(file.resolve().parent == folder.resolve() for file in files):
        return (Mount(container=str(folder), host=folder),), str(folder)
    mounts = tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
    return mounts, CONTAINER_LIBRARIES


def _capabilities(gpu: Gpu, root: Path) -> list[str]:
    """Return the capability nodes of a MIG instance."""
    if not gpu.mig_uuid:
        return []
    instance = root / f"proc/driver/nvidia/capabilities/gpu{gpu.minor_number}/mig/gi{gpu.gpu_instance_id}"
    minors = []
    for file in (instance / "access", instance / f"ci{gpu.compute_instance_id}/access"):
        if file.exists() and (minor := re.search(r"DeviceFileMinor:\s*(\d+)", file.read_text("utf-8"))):
            minors.append(minor[1])
    if not minors:
        raise GpuError(
            f"MIG instance {gpu.mig_uuid} has no entry under /proc/driver/nvidia/capabilities",
            hint="Recreate the instances (list: nvidia-smi mig -lgi), or install the NVIDIA Container Toolkit.",
        )
    return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors]
