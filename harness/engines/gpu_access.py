"""Choose how containers access GPUs: NVIDIA's toolkit, CDI, or device nodes with the driver's libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.engines import GpuAccess
from harness.engines.cdi import cdi_names
from harness.engines.daemon import PODMAN
from harness.engines.gpu_files import CONTAINER_LIBRARIES, device_nodes, driver_folder, driver_mounts
from harness.errors import GpuError
from harness.model.platform import EngineInfo, Gpu

_HOOKS = ("usr/bin/nvidia-container-runtime-hook", "usr/local/bin/nvidia-container-runtime-hook")


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
    if info.name != PODMAN and _has_toolkit(info, root):
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


def _has_toolkit(info: EngineInfo, root: Path) -> bool:
    return "nvidia" in info.runtimes or any((root / hook).exists() for hook in _HOOKS)
