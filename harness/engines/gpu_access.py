"""Choose how containers access GPUs: NVIDIA's toolkit, CDI, or device nodes with the driver's libraries."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from harness.engines import GpuAccess, Mount
from harness.errors import GpuError
from harness.model.platform import EngineInfo, Gpu

_HOOKS = ("usr/bin/nvidia-container-runtime-hook", "usr/local/bin/nvidia-container-runtime-hook")
KIND = "nvidia.com/gpu"
# Folder in a container; NVIDIA's images search it too.
CONTAINER_LIBRARIES = "/usr/local/nvidia/lib64"
# What libnvidia-container mounts for "compute" and "utility".
_LIBRARIES = (
    "cuda", "cudadebugger", "nvidia-allocator", "nvidia-cfg", "nvidia-compiler", "nvidia-fatbinaryloader",
    "nvidia-gpucomp", "nvidia-ml", "nvidia-nvvm", "nvidia-nvvm70", "nvidia-pkcs11*", "nvidia-ptxjitcompiler",
)  # fmt: skip
_LIBRARIES_HINT = (
    "Install the driver's compute libraries (libnvidia-compute or nvidia-driver-cuda), or add their folder "
    "to LD_LIBRARY_PATH."
)


def choose_access(
    info: EngineInfo, gpus: Sequence[Gpu], root: Path = Path("/"), libraries: Path | None = None
) -> GpuAccess:
    """Choose how containers of this engine access exactly these GPUs.

    Args:
        gpus: GPUs or MIG instances, in the workload's order.
        libraries: folder of the driver's libraries; None to search for it.

    Raises:
        GpuError: no method works; the message gives the reason for each.
    """
    uuids = tuple(gpu.cuda_id for gpu in gpus)
    if len(gpus) > 1 and any(gpu.mig_uuid for gpu in gpus):
        raise GpuError(
            "A CUDA process can use only one MIG instance.",
            hint="Select one instance with --gpus.",
        )
    environment = {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    if not info.isolated:
        return GpuAccess(kind="host", uuids=uuids, environment=environment)
    if "nvidia" in info.runtimes or any((root / hook).exists() for hook in _HOOKS):
        return GpuAccess(kind="toolkit", uuids=uuids, environment=environment)
    names, no_cdi = cdi_names(info.cdi_folders, gpus, root)
    # NVIDIA's runtime, if it is the engine's default, must not add other GPUs.
    environment["NVIDIA_VISIBLE_DEVICES"] = "void"
    if names:
        return GpuAccess(kind="cdi", uuids=uuids, device_nodes=names, environment=environment)
    try:
        nodes, mounts = device_nodes(gpus, root), driver_mounts(libraries or driver_folder())
    except GpuError as error:
        message = f"Cannot pass GPUs to a container: no NVIDIA Container Toolkit; {no_cdi}; {error.message}."
        raise GpuError(message, hint=error.hint) from error
    environment["LD_LIBRARY_PATH"] = CONTAINER_LIBRARIES
    return GpuAccess(kind="devices", uuids=uuids, device_nodes=nodes, mounts=mounts, environment=environment)


def cdi_names(folders: Sequence[str], gpus: Sequence[Gpu], root: Path) -> tuple[tuple[str, ...], str]:
    """Return the qualified CDI name of each GPU, or () and the reason.

    Args:
        folders: the engine's specification folders; empty if it does not support CDI.
    """
    if not folders:
        return (), "the engine does not support CDI"
    available = {name for folder in folders for name in _devices(root / folder.lstrip("/"))}
    if not available:
        return (), f"no CDI specification of {KIND} in {' or '.join(folders)}"
    names = []
    for gpu in gpus:
        # Under nvidia-ctk's naming strategies (uuid, index).
        possible = (gpu.mig_uuid,) if gpu.mig_uuid else (gpu.uuid, str(gpu.index), f"gpu{gpu.index}")
        matching = [name for name in possible if name in available]
        if not matching:
            missing = gpu.cuda_id
            return (), f"the CDI specification does not list {missing} (update it: nvidia-ctk cdi generate)"
        names.append(f"{KIND}={matching[0]}")
    return tuple(names), ""


def _devices(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*")):
        if path.suffix not in (".json", ".yaml", ".yml"):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            # PyYAML does not accept JSON with tabs.
            spec: Any = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError):
            # The engine ignores invalid files too.
            continue
        if isinstance(spec, dict) and spec.get("kind") == KIND:
            yield from (str(device["name"]) for device in spec.get("devices") or () if "name" in device)


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
    files = sorted({file for name in _LIBRARIES for file in folder.glob(f"lib{name}.so*")})
    return tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
