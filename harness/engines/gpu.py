"""Choose GPUs, hold their driver against the CUDA image, and decide how containers get them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.engines import GpuAccess
from harness.engines.cdi import cdi_names
from harness.engines.daemon import PODMAN
from harness.engines.gpu_files import CONTAINER_LIBRARIES, device_nodes, driver_folder, driver_mounts
from harness.errors import GpuError, UsageError
from harness.model.platform import EngineInfo, Gpu

# CUDA 12's minor-version compatibility: CUDA Compatibility guide, table 2 (Linux).
LEAST_DRIVER = "525.60.13"
# TensorFlow 2.21's wheels hold machine code for 6.0 to 9.0, and PTX of 9.0 for what is newer.
LEAST_CAPABILITY = "6.0"
LAST_COMPILED_CAPABILITY = "9.0"
# PTX goes through a driver of its own CUDA release or newer, and the image's libraries are of 12.9.
PTX_DRIVER = "575.51.03"
_HOOKS = ("usr/bin/nvidia-container-runtime-hook", "usr/local/bin/nvidia-container-runtime-hook")


def gpu_id(gpu: Gpu) -> str:
    """Return what CUDA calls it: the MIG instance's UUID where it is one, else the GPU's."""
    return gpu.mig_uuid or gpu.uuid


def select_gpus(gpus: Sequence[Gpu], wanted: str) -> tuple[Gpu, ...]:
    """Return the GPUs that `wanted` names, in its order and each once.

    Args:
        gpus: all there are; a MIG instance is one of its own.
        wanted: "all", or indices, UUIDs or MIG UUIDs separated by commas.

    Raises:
        UsageError: a name fits none or several; the message lists what there is.
    """
    usable = [gpu for gpu in gpus if gpu.mig_uuid or not gpu.mig_enabled]
    names = [] if wanted == "all" else wanted.split(",")
    chosen = [_named(usable, name.strip(), gpus) for name in names] or usable
    if not chosen:
        raise UsageError(
            f"No GPU matches --gpus {wanted}: {_listed(gpus)}", hint="Remove --gpus, or run `tfbench doctor`."
        )
    return tuple({gpu_id(gpu): gpu for gpu in chosen}.values())


def check_driver(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Hold driver and GPUs against the CUDA image; return what a user should know though it works.

    Raises:
        GpuError: the driver is too old, or the GPU is; the message has the numbers.
    """
    remarks = []
    for gpu in gpus:
        driver = _numbers(gpu.driver_version)
        if driver and driver < _numbers(LEAST_DRIVER):
            raise GpuError(
                f"The NVIDIA driver is {gpu.driver_version}; the CUDA 12 image needs {LEAST_DRIVER} "
                "or newer.",
                hint="Update the driver, use an image that supports it with --image cuda=REF, or use "
                "--device cpu.",
            )
        capability = _numbers(gpu.compute_capability or "")
        if capability and capability < _numbers(LEAST_CAPABILITY):
            raise GpuError(
                f"{gpu.name} has compute capability {gpu.compute_capability}; TensorFlow's wheels need "
                f"{LEAST_CAPABILITY} or newer.",
                hint="Use an image with an older TensorFlow (--image cuda=REF), or --device cpu.",
            )
        if capability[:1] > _numbers(LAST_COMPILED_CAPABILITY)[:1]:
            remarks.append(
                f"TensorFlow has no machine code for {gpu.name} (compute capability {gpu.compute_capability}): "
                f"the first run compiles for minutes, by driver {PTX_DRIVER} or newer; later ones use the cache."
            )
    return tuple(dict.fromkeys(remarks))


def choose_access(
    info: EngineInfo, gpus: Sequence[Gpu], root: Path = Path("/"), libraries: Path | None = None
) -> GpuAccess:
    """Decide how containers of this engine get these GPUs and no others.

    Args:
        info: the engine.
        gpus: the GPUs or MIG instances, in the order in which the workload shall see them.
        root: the host's file system.
        libraries: the folder of the driver's libraries; None for the one that this process has NVML from.

    Raises:
        GpuError: none of the ways is open; the message names the missing piece.
    """
    uuids = tuple(gpu_id(gpu) for gpu in gpus)
    if len(gpus) > 1 and any(gpu.mig_uuid for gpu in gpus):
        raise GpuError(
            "A CUDA process can use only one MIG instance.",
            hint="Choose one instance with --gpus.",
        )
    environment = {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    if not info.isolated:
        return GpuAccess(kind="host", uuids=uuids, environment=environment)
    if info.name != PODMAN and _has_toolkit(info, root):
        return GpuAccess(kind="toolkit", uuids=uuids, environment=environment)
    names, no_cdi = cdi_names(info.cdi_folders, gpus, root)
    # A runtime of NVIDIA's that is the engine's default would add GPUs of its own accord.
    environment["NVIDIA_VISIBLE_DEVICES"] = "void"
    if names:
        return GpuAccess(kind="cdi", uuids=uuids, device_nodes=names, environment=environment)
    try:
        nodes, mounts = device_nodes(gpus, root), driver_mounts(libraries or driver_folder())
    except GpuError as error:
        message = (
            f"GPUs cannot be passed to a container: no NVIDIA Container Toolkit; {no_cdi}; {error.message}."
        )
        raise GpuError(message, hint=error.hint) from error
    environment["LD_LIBRARY_PATH"] = CONTAINER_LIBRARIES
    return GpuAccess(kind="devices", uuids=uuids, device_nodes=nodes, mounts=mounts, environment=environment)


def _has_toolkit(info: EngineInfo, root: Path) -> bool:
    return "nvidia" in info.runtimes or any((root / hook).exists() for hook in _HOOKS)


def _named(usable: Sequence[Gpu], name: str, gpus: Sequence[Gpu]) -> Gpu:
    result = [gpu for gpu in usable if name in (str(gpu.index), gpu_id(gpu))]
    if len(result) == 1:
        return result[0]
    raise UsageError(
        f"{name!r} matches {len(result) or 'no'} GPUs. Available: {_listed(gpus)}",
        hint="Choose by index, UUID or MIG UUID, separated by commas, or all.",
    )


def _listed(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "none"
    return "; ".join(
        f"{gpu.index} {gpu.name} {gpu_id(gpu)}" + (" (MIG is on)" if gpu.mig_enabled else "") for gpu in gpus
    )


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
