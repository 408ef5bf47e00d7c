"""Engines run a trial's process and let the host watch it. `docker` isolates, `local` does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.defaults import TMP_BYTES
from harness.model.platform import EngineInfo, ImageInfo

# Paths inside a container; the local engine replaces them by host paths.
WORKLOADS_DIR = "/tfbench/workloads"
DATA_DIR = "/tfbench/data"
WEIGHTS_DIR = "/tfbench/weights"
OUT_DIR = "/tfbench/out"
FILE_DIR = "/tfbench/file"
CUDA_CACHE_DIR = "/tfbench/cuda-cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host folder or file and its path in the container."""

    container: str
    host: Path
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """How a container gets its GPUs.

    Attributes:
        kind: "toolkit", "cdi", "devices", or "host" for a process that is not isolated.
        uuids: of GPUs or MIG instances, in the trial's order.
        device_nodes: paths under /dev for "devices", qualified CDI names for "cdi".
        mounts: the driver's libraries, for "devices".
    """

    kind: str
    uuids: tuple[str, ...]
    device_nodes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One trial's process.

    Attributes:
        command: argument vector with the container's paths.
        environment: added to the image's own.
        out: host folder mounted read-write at OUT_DIR.
        cpus: cpuset syntax ("0-3,8"), "" for all.
        cpu_quota: CPUs' worth of time, e.g. 0.5; None for no limit.
        memory_bytes, pids: limits; None for the engine's own.
        tmp_bytes: limit of the container's /tmp, which is in memory.
        trial_id, run_id: for labels.
        network: "none", or "host" for workers that train together.
    """

    image: ImageInfo
    command: tuple[str, ...]
    environment: Mapping[str, str]
    out: Path
    mounts: tuple[Mount, ...]
    trial_id: str
    run_id: str
    cpus: str = ""
    cpu_quota: float | None = None
    memory_bytes: int | None = None
    pids: int | None = 4096
    tmp_bytes: int = TMP_BYTES
    gpu: GpuAccess | None = None
    network: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended; a negative `code` is the signal that ended a local process."""

    code: int
    out_of_memory: bool


class Container(Protocol):
    """A started trial; any method may raise EngineError."""

    @property
    def id(self) -> str:
        """The engine's id."""

    @property
    def pid(self) -> int | None:
        """Host process id of the first process; None if it ended at once."""

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr."""

    def kill(self) -> None:
        """Kill it; no error if it has ended."""

    def remove(self) -> None:
        """Remove what is left of it; no error if nothing is."""


class Engine(Protocol):
    """Runs containers; `connect.py` reaches one."""

    @property
    def info(self) -> EngineInfo:
        """The engine as the manifest describes it."""

    def start(self, spec: ContainerSpec) -> Container:
        """Start a trial or raise EngineError."""

    def remove_stale(self) -> int:
        """Remove containers of killed harnesses; return how many."""

    def close(self) -> None:
        """Close the connection."""
