"""Ask a node what it is. Runs there; needs the standard library alone until it knows what the node has."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.fleet.code import digest
from harness.fleet.messages import Facts

# Import name of every package that running a plan takes; what only a report needs is not asked of a node.
NEEDED = (
    "docker", "filelock", "msgspec", "numpy", "packaging", "platformdirs", "pooch", "psutil", "pynvml", "requests",
    "urllib3", "yaml",
)  # fmt: skip
CHECKOUT = Path(__file__).resolve().parents[2]


def versions(checkout: Path = CHECKOUT) -> Mapping[str, str]:
    """Return this process' versions, as in Facts."""
    return {
        "python": platform.python_version(),
        "ray": _version("ray"),
        "tfbench": _version("tfbench"),
        "code": digest(checkout),
    }


def facts(targets: Sequence[str], engine: str, cloud: bool, needed: Sequence[str] = NEEDED) -> Facts:
    """Describe this node; never raises for what is missing.

    Args:
        targets: images that the plan needs: whether each is built is looked up.
        engine: the one that was asked for, of harness.engines.connect.NAMES.
        cloud: whether to ask the cloud's metadata service.
        needed: import names of packages.
    """
    missing = tuple(name for name in needed if importlib.util.find_spec(name) is None)
    if missing:
        return Facts(versions=versions(), missing=missing)
    return _with_packages(targets, engine, cloud)


def _with_packages(targets: Sequence[str], asked: str, cloud: bool) -> Facts:
    from harness.model.run import EngineInfo  # noqa: PLC0415
    from harness.paths import paths_here  # noqa: PLC0415
    from harness.system.cloud import cloud_facts  # noqa: PLC0415 - needs packages that may not be there
    from harness.system.gpus import discover  # noqa: PLC0415
    from harness.system.machine import disk_of, host_facts, system_description  # noqa: PLC0415

    paths = paths_here(os.environ)
    gpus, _ = discover()
    nothing = EngineInfo(name="", version="", isolated=False)
    system = system_description(gpus, nothing, {})
    host = host_facts()
    result = _engine(asked, paths.checkout, paths.cache, targets)
    return Facts(
        versions=versions(),
        boot_id=str(host.get("boot_id", "")),
        kind=kind(
            str(cloud_facts().get("cloud_instance_type", "")) if cloud else "",
            [gpu.name for gpu in gpus],
            system["host_processor_model_name"],
            int(host.get("cpus", 0)),
            int(host.get("memory_bytes", 0)),
        ),
        engine=result.name,
        engine_problem=result.problem,
        images=result.images,
        cache_disk=disk_of(paths.cache),
        image_disk=disk_of(Path(result.folder)) if result.folder else None,
        gpus=tuple(gpu.name for gpu in gpus),
        cpus=int(host.get("cpus", 0)),
        wall_s=time.time(),
    )


def kind(instance: str, gpus: Sequence[str], cpu: str, cpus: int, memory_bytes: int) -> str:
    """Describe what makes two nodes comparable; memory to the next 4 GiB, as kernels keep some of it."""
    memory = f"{4 * -(-memory_bytes // (4 * 2**30))} GiB" if memory_bytes else ""
    gpu_words = [f"{gpus.count(name)}x {name}" for name in dict.fromkeys(gpus)]
    cpu_words = f"{cpus}x {cpu}" if cpu else f"{cpus} CPUs"
    return ", ".join(filter(None, (instance, *gpu_words, cpu_words, memory)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engine:
    """What Facts say of an engine; `folder` is where it keeps images on this machine."""

    name: str = ""
    problem: str = ""
    images: tuple[str, ...] = ()
    folder: str = ""


def _engine(asked: str, checkout: Path, cache: Path, targets: Sequence[str]) -> _Engine:
    from harness.engines.daemon import PODMAN  # noqa: PLC0415
    from harness.engines.docker import DockerEngine  # noqa: PLC0415
    from harness.errors import TfbenchError  # noqa: PLC0415
    from harness.images.builder import ImageBuilder  # noqa: PLC0415
    from harness.progress import Silent  # noqa: PLC0415

    engine = DockerEngine(os.environ, podman=asked == PODMAN)
    try:
        info = engine.connect()
        builder = ImageBuilder(checkout, cache, engine.client, Silent())
        built = tuple(target for target in targets if builder.existing(target) is not None)
    except TfbenchError as error:
        return _Engine(problem=error.message)
    finally:
        engine.close()
    return _Engine(name=f"{info.name} {info.version}", images=built, folder=engine.daemon.image_folder)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
