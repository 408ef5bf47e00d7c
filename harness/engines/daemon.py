"""What a container engine says of itself, and whether it runs on this very kernel and file system."""

from __future__ import annotations

import io
import os
import platform
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import psutil
from docker.errors import APIError
from docker.types import Mount as ApiMount

from harness.model.run import EngineInfo

DOCKER, PODMAN = "docker", "podman"
_CONTAINERD = Path("/var/lib/containerd")
_SNAPSHOTTER = "io.containerd.snapshotter.v1"
_IN_A_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Facts that decide how containers are made.

    Attributes:
        name: DOCKER or PODMAN.
        version: the engine's, e.g. "20.10.24".
        rootless: it runs as an ordinary user.
        user_namespaces: it maps container users to others by default (userns-remap).
        selinux: it labels containers.
        memory, pids, cpu_quota, cpuset: which limits it can set.
        cgroup_version: 1 or 2, None when it does not say.
        runtimes: names of the OCI runtimes it knows.
        cdi_folders: where it reads CDI specifications; empty when it has CDI switched off or unknown.
        remote: it runs on another kernel or sees other files: bind mounts and process ids mean nothing.
        image_folder: where it keeps images, on its own machine; "" when it does not say.
    """

    name: str
    version: str
    rootless: bool
    user_namespaces: bool
    selinux: bool
    memory: bool
    pids: bool
    cpu_quota: bool
    cpuset: bool
    cgroup_version: int | None
    runtimes: tuple[str, ...]
    cdi_folders: tuple[str, ...]
    remote: bool
    image_folder: str = ""

    @property
    def images_here(self) -> Path | None:
        """The folder of this machine in which it keeps images; None on another, and when it does not say."""
        return Path(self.image_folder) if self.image_folder and not self.remote else None

    def info(self) -> EngineInfo:
        """Return what goes into the manifest."""
        return EngineInfo(
            name=self.name,
            version=self.version,
            isolated=True,
            rootless=self.rootless,
            cgroup_version=self.cgroup_version,
            remote=self.remote,
            runtimes=self.runtimes,
            cdi_folders=self.cdi_folders,
        )


def describe(client: docker.DockerClient, url: str, remote: bool | None) -> Daemon:
    """Ask the engine about itself; `remote` decides what is otherwise found out."""
    version: dict[str, Any] = client.version()
    info: dict[str, Any] = client.info()
    components = [part.get("Name", "") for part in version.get("Components") or ()]
    podman = any(name.startswith("Podman") for name in components)
    security = [option.removeprefix("name=").split(",")[0] for option in info.get("SecurityOptions") or ()]
    cgroup = str(info.get("CgroupVersion") or "")
    folders = tuple(info.get("CDISpecDirs") or ())
    return Daemon(
        name=PODMAN if podman else DOCKER,
        version=str(version.get("Version", "")),
        rootless="rootless" in security,
        user_namespaces="userns" in security,
        selinux="selinux" in security,
        memory=bool(info.get("MemoryLimit", True)),
        pids=bool(info.get("PidsLimit", True)),
        cpu_quota=bool(info.get("CpuCfsQuota", True)),
        cpuset=bool(info.get("CPUSet", True)),
        cgroup_version=int(cgroup) if cgroup.isdigit() else None,
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        # Podman always reads CDI, and does not list the folders.
        cdi_folders=folders or (("/etc/cdi", "/var/run/cdi") if podman else ()),
        remote=_is_remote(client, url, info) if remote is None else remote,
        image_folder=image_folder(info),
    )


def image_folder(info: Mapping[str, Any], containerd: Path = _CONTAINERD) -> str:
    """Return the folder in which an engine keeps images, "" when it does not say.

    Args:
        info: what the engine says of itself.
        containerd: where containerd has its root, which Docker does not tell when images are kept there.
    """
    status = dict(pair for pair in info.get("DriverStatus") or () if len(pair) == 2)
    if status.get("driver-type") == _SNAPSHOTTER and containerd.is_dir():
        return str(containerd)
    return str(info.get("DockerRootDir") or "")


def _is_remote(client: docker.DockerClient, url: str, info: dict[str, Any]) -> bool:
    """Tell whether the engine is out of reach of bind mounts and process ids.

    A virtual machine on this host (Docker Desktop) has a local socket and another kernel; an engine on
    loopback TCP or ssh may be this very host's. A harness in a container that was handed the host's
    socket shares the kernel but not the files.
    """
    same_machine = (
        info.get("Name") == platform.node()
        and info.get("KernelVersion") == platform.release()
        and info.get("MemTotal") == psutil.virtual_memory().total
    )
    if not same_machine:
        return True
    if url.startswith("unix://") and not any(mark.exists() for mark in _IN_A_CONTAINER):
        return False
    return not _sees_our_files(client)


def _sees_our_files(client: docker.DockerClient) -> bool:
    """Create, and never start, a container that binds a folder which only this host has."""
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    repository = f"tfbench-probe-{os.getpid()}"
    client.api.import_image_from_data(empty.getvalue(), repository=repository, tag="latest")
    try:
        with tempfile.TemporaryDirectory(prefix="tfbench-probe-") as marker:
            mount = ApiMount(target="/marker", source=marker, type="bind", read_only=True)
            config = client.api.create_host_config(mounts=[mount], network_mode="none")
            try:
                made = client.api.create_container(f"{repository}:latest", ["/none"], host_config=config)
            except APIError:
                return False
            client.api.remove_container(made["Id"], force=True)
            return True
    finally:
        with suppress(APIError):  # an engine that cannot clear away has still answered
            client.api.remove_image(f"{repository}:latest", force=True)
