"""Find a GPU's device nodes and the driver's libraries on the host, for containers made without a toolkit."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.engines import Mount
from harness.errors import GpuError
from harness.model.run import Gpu

# Where single libraries are put in a container; NVIDIA's own images search it too.
CONTAINER_LIBRARIES = "/usr/local/nvidia/lib64"
_WELL_KNOWN = (
    "usr/local/nvidia/lib64",
    "usr/lib/{machine}-linux-gnu/nvidia/current",
    "usr/lib/{machine}-linux-gnu",
    "usr/lib64/nvidia",
    "usr/lib64",
    "usr/lib/nvidia",
    "usr/lib",
    "run/nvidia/driver/usr/lib/{machine}-linux-gnu",
    "run/opengl-driver/lib",
)
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


def device_nodes(gpus: Sequence[Gpu], root: Path) -> tuple[str, ...]:
    """Return the device nodes that a container needs for these GPUs or MIG instances, and no other GPU's.

    Raises:
        GpuError: one is not there; the message names it.
    """
    nodes = [f"/dev/nvidia{_minor(gpu, root)}" for gpu in gpus]
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


def driver_mounts(version: str, root: Path, library_path: str) -> tuple[tuple[Mount, ...], str]:
    """Return the mounts that bring the driver's libraries into a container, and their folder there.

    A folder of the driver's own is mounted whole. From a system folder only the driver's files are, one
    by one: the host's C library in front of the image's would break it.

    Args:
        version: the loaded kernel module's, which the libraries must equal; "" when unknown.
        library_path: folders to look in first, separated by colons.

    Raises:
        GpuError: there is no libcuda.so.1, or only of another version.
    """
    folder = _driver_folder(version, root, library_path)
    files = sorted({file for pattern in _LIBRARIES for file in folder.glob(pattern)})
    inside = folder.relative_to(root)
    own = any("nvidia" in part for part in inside.parts)
    if own and all(file.resolve().parent == folder.resolve() for file in files):
        path = f"/{inside}"
        return (Mount(container=path, host=folder),), path
    mounts = tuple(
        Mount(container=f"{CONTAINER_LIBRARIES}/{file.name}", host=file.resolve())
        for file in files
        if file.resolve().is_file()
    )
    return mounts, CONTAINER_LIBRARIES


def _driver_folder(version: str, root: Path, library_path: str) -> Path:
    others: list[str] = []
    unnamed: list[Path] = []
    for folder in _folders(root, library_path):
        library = folder / "libcuda.so.1"
        if not library.exists():
            continue
        result = re.search(r"\.so\.(\d+\.[\d.]+)$", library.resolve().name)
        if result is None:
            unnamed.append(folder)
        elif not version or result[1] == version:
            return folder
        else:
            others.append(f"{result[1]} in /{folder.relative_to(root)}")
    if unnamed:
        return unnamed[0]
    if others:
        raise GpuError(
            f"the kernel runs driver {version}, but libcuda.so.1 belongs to {', '.join(others)}",
            hint="Reboot, or reload the kernel module, so that driver and library match.",
        )
    raise GpuError(
        "the driver's library libcuda.so.1 is in none of the library folders",
        hint="Install the driver's compute libraries (libnvidia-compute or nvidia-driver-cuda), or name the "
        "folder that has them in LD_LIBRARY_PATH.",
    )


def _folders(root: Path, library_path: str) -> Iterable[Path]:
    """Yield every folder that a dynamic linker of the host would search, each once."""
    named = [part for part in library_path.split(":") if part.startswith("/")]
    configured: list[str] = []
    for file in (root / "etc/ld.so.conf", *sorted((root / "etc/ld.so.conf.d").glob("*.conf"))):
        if file.is_file():
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            configured += [line.strip() for line in lines if line.strip().startswith("/")]
    machine = platform.machine()
    available = [folder.format(machine=machine) for folder in _WELL_KNOWN]
    return dict.fromkeys(root / folder.lstrip("/") for folder in (*named, *configured, *available))


def _minor(gpu: Gpu, root: Path) -> int:
    """Return the number of the GPU's device node."""
    if gpu.minor_number is not None:
        return gpu.minor_number
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        lines = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
        facts = {name.strip(): value.strip() for name, _, value in lines}
        if facts.get("GPU UUID") == gpu.uuid and facts.get("Device Minor", "").isdigit():
            return int(facts["Device Minor"])
    nodes = [path.name for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    if len(nodes) == 1:
        return int(nodes[0].removeprefix("nvidia"))
    raise GpuError(
        f"it is unknown which of {len(nodes)} device nodes is {gpu.uuid}",
        hint="See /proc/driver/nvidia/gpus/*/information; or install the NVIDIA Container Toolkit.",
    )


def _capabilities(gpu: Gpu, root: Path) -> list[str]:
    """Return the capability nodes of a MIG instance; of all the GPU's where it is not known which it is."""
    if not gpu.mig_uuid:
        return []
    instance = "*" if gpu.gpu_instance_id is None else str(gpu.gpu_instance_id)
    compute = "*" if gpu.compute_instance_id is None else str(gpu.compute_instance_id)
    mig = root / f"proc/driver/nvidia/capabilities/gpu{_minor(gpu, root)}/mig"
    files = [*mig.glob(f"gi{instance}/access"), *mig.glob(f"gi{instance}/ci{compute}/access")]
    minors = []
    for file in sorted(files):
        result = re.search(r"DeviceFileMinor:\s*(\d+)", file.read_text(encoding="utf-8"))
        if result:
            minors.append(int(result[1]))
    if not minors:
        raise GpuError(
            f"MIG instance {gpu.mig_uuid} has no entry under /proc/driver/nvidia/capabilities",
            hint="Recreate the instances (list: nvidia-smi mig -lgi), or install the NVIDIA Container Toolkit.",
        )
    return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors]
