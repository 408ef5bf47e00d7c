"""Engines: what runs one trial's process and lets the host watch it. `docker` isolates, `local` does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.defaults import TMP_BYTES
from harness.model.platform import EngineInfo, ImageInfo

# Where things lie inside a container; the local engine maps them to host paths itself.
WORKLOADS_DIR = "/tfbench/workloads"
DATA_DIR = "/tfbench/data"
WEIGHTS_DIR = "/tfbench/weights"
OUT_DIR = "/tfbench/out"
FILE_DIR = "/tfbench/file"
CUDA_CACHE_DIR = "/tfbench/cuda-cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the host, `host`, as the container sees it, `container`."""

    container: str
    host: Path
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """How a container gets its GPUs.

    Attributes:
        kind: "toolkit", "cdi", "devices", or "host" for a process that is not isolated.
        uuids: what CUDA and NVML call the GPUs or MIG instances, in the trial's order.
        device_nodes: paths under /dev for "devices", qualified CDI names for "cdi".
        mounts: the driver's libraries, for "devices".
        environment: what the container needs in it.
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
        image: what Engine.prepare returned.
        command: argument vector; paths in it and in the mounts are the container's.
        environment: added to the image's own.
        out: host folder mounted read-write at OUT_DIR; events are written there.
        mounts: further folders.
        cpus: CPU numbers to pin to, as cpuset syntax ("0-3,8"), "" for all.
        cpu_quota: CPUs' worth of time, e.g. 0.5; None for no limit.
        memory_bytes, pids: limits; None for the engine's own.
        tmp_bytes: most that the container's own /tmp, which lies in memory, may hold; a limit, not a
            reservation.
        gpu: how to hand GPUs over, None for none.
        trial_id, run_id: go into labels.
        network: "none", or "host" for workers that train together: the one thing that is not isolated then.
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
    """How a container ended: `code` is negative for the signal that ended a local process."""

    code: int
    out_of_memory: bool


class Container(Protocol):
    """A started trial; a container engine's raises EngineError from any method when the engine no longer answers."""

    @property
    def id(self) -> str:
        """The engine's name for it."""

    @property
    def pid(self) -> int | None:
        """Process id on this host of the container's first process; None once it has ended."""

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""

    def log(self) -> str:
        """Return the end of its stdout and stderr, at most 64 KiB."""

    def kill(self) -> None:
        """End it at once; no error if it has ended."""

    def remove(self) -> None:
        """Remove what is left of it; no error if nothing is."""


class Engine(Protocol):
    """Runs containers; `connect.py` reaches one."""

    @property
    def info(self) -> EngineInfo:
        """What it is, for the manifest."""

    def start(self, spec: ContainerSpec) -> Container:
        """Start a trial.

        Raises:
            EngineError: the engine refuses or is gone.
        """

    def remove_stale(self) -> int:
        """Remove containers that an earlier harness left behind; return how many."""

    def close(self) -> None:
        """Close the connection."""
