"""Describe a container engine and check that it runs on this machine."""

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
# Limit -> field that reports whether the engine supports it; rootless engines often do not.
_LIMITS = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu_quota": "CpuCfsQuota", "cpuset": "CPUSet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Properties of the engine that affect container options.

    Attributes:
        user_namespaces: container users are remapped by default (userns-remap).
        selinux: containers get SELinux labels.
        limits: supported limits: "memory", "pids", "cpu_quota", "cpuset".
        image_folder: folder of its images; / if unknown.
    """

    info: EngineInfo
    user_namespaces: bool = False
    selinux: bool = False
    limits: frozenset[str] = frozenset(_LIMITS)
    image_folder: Path = Path("/")


def describe(client: docker.DockerClient) -> Daemon:
    """Describe the engine; raise EngineError if it does not share this machine's files and process ids."""
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
            # Podman always supports CDI but does not report the folders.
            cdi_folders=folders or (("/etc/cdi", "/var/run/cdi") if podman else ()),
        ),
        user_namespaces="userns" in security,
        selinux="selinux" in security,
        limits=frozenset(name for name, key in _LIMITS.items() if info.get(key, True)),
        image_folder=Path(info.get("DockerRootDir", "/")),
    )


def _check_shared(info: Mapping[str, Any]) -> None:
    """Check that the engine shares this machine's kernel and files.

    Docker Desktop's engine runs in a virtual machine with a different kernel. A container with access to the
    host's socket has a different host name.
    """
    if (info.get("Name"), info.get("KernelVersion"), info.get("MemTotal")) != (
        platform.node(),
        platform.release(),
        psutil.virtual_memory().total,
    ):
        raise EngineError(
            "The container engine runs on another machine, in a virtual machine or outside this container.",
            hint="Run tfbench where the engine runs: it mounts local folders and reads local telemetry.",
        )
