"""What a container engine says of itself, and whether it runs on this machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import psutil

from harness.errors import EngineError
from harness.model.platform import EngineInfo

PODMAN = "podman"
# What an engine says of the limits that it can set: rootless ones often cannot.
_LIMITS = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu_quota": "CpuCfsQuota", "cpuset": "CPUSet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Facts that decide how containers are made.

    Attributes:
        info: what goes into the manifest; it is isolated.
        user_namespaces: it maps container users to others by default (userns-remap).
        selinux: it labels containers.
        limits: which limits it can set, of "memory", "pids", "cpu_quota" and "cpuset".
        image_folder: where it keeps images; the root where it does not say.
    """

    info: EngineInfo
    user_namespaces: bool = False
    selinux: bool = False
    limits: frozenset[str] = frozenset(_LIMITS)
    image_folder: Path = Path("/")


def describe(client: docker.DockerClient) -> Daemon:
    """Ask the engine about itself.

    Raises:
        EngineError: it runs on another kernel or sees other files, so that mounts and process ids mean nothing.
    """
    version: dict[str, Any] = client.version()
    info: dict[str, Any] = client.info()
    _check_shared(info)
    components = [part.get("Name", "") for part in version.get("Components") or ()]
    podman = any(name.startswith("Podman") for name in components)
    security = [option.removeprefix("name=").split(",")[0] for option in info.get("SecurityOptions") or ()]
    cgroup = str(info.get("CgroupVersion") or "")
    folders = tuple(info.get("CDISpecDirs") or ())
    return Daemon(
        info=EngineInfo(
            name=PODMAN if podman else "docker",
            version=str(version.get("Version", "")),
            isolated=True,
            rootless="rootless" in security,
            cgroup_version=int(cgroup) if cgroup.isdigit() else None,
            runtimes=tuple(sorted(info.get("Runtimes") or {})),
            # Podman always reads CDI, and does not list the folders.
            cdi_folders=folders or (("/etc/cdi", "/var/run/cdi") if podman else ()),
        ),
        user_namespaces="userns" in security,
        selinux="selinux" in security,
        limits=frozenset(name for name, key in _LIMITS.items() if info.get(key, True)),
        image_folder=Path(info.get("DockerRootDir", "/")),
    )


def _check_shared(info: Mapping[str, Any]) -> None:
    """Make sure that the engine shares this machine's kernel and files.

    A virtual machine on this host (Docker Desktop) has a local socket and another kernel; a container that was
    handed the host's socket has another host name.
    """
    if (info.get("Name"), info.get("KernelVersion"), info.get("MemTotal")) != (
        platform.node(),
        platform.release(),
        psutil.virtual_memory().total,
    ):
        raise EngineError(
            "The container engine runs on another machine, in a virtual machine or outside of this container.",
            hint="Run tfbench where the engine runs: it mounts folders and reads the telemetry of this machine.",
        )
