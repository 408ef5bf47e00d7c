"""Engines run a trial's process and let the host observe it: in a container (docker) or directly (local)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.model.platform import EngineInfo, ImageInfo

# Paths inside a container; the local engine replaces them with host paths.
WORKLOADS_DIR = "/tfbench/workloads"
DATA_DIR = "/tfbench/data"
OUT_DIR = "/tfbench/out"
# So deep that links from it to what is beside the folders above lead to nothing of the others.
FILE_DIR = "/tfbench/user/1/2/3/4/5/6/file"
CUDA_CACHE_DIR = "/tfbench/cuda-cache"
DOWNLOADS_DIR = "/tfbench/downloads"

AUTO, DOCKER, LOCAL = ENGINES = ("auto", "docker", "local")


def used_engine(info: EngineInfo) -> str:
    """Return the option that chooses the engine that a run has used, which may have been found by itself."""
    return DOCKER if info.isolated else LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host folder or file and its path in the container."""

    container: str
    host: Path
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """How a container gets access to its GPUs.

    Attributes:
        kind: "toolkit", "cdi", "devices", or "host" for a process without a container.
        uuids: UUIDs of the GPUs or MIG instances, in the trial's order.
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
    """The process of a trial.

    Attributes:
        command: argument vector, with container paths.
        environment: variables added to the image's.
        hidden: texts that the log does not contain.
        out: host folder mounted read-write at OUT_DIR.
        cpus: comma-separated numbers, "" for all.
        cpu_quota: limit in CPUs, e.g. 0.5; None for no limit.
        memory_bytes, pids: limits; None for the engine's default.
        trial_id, run_id: used as labels.
        network: whether it has network access.
    """

    image: ImageInfo
    command: tuple[str, ...]
    environment: Mapping[str, str]
    out: Path
    mounts: tuple[Mount, ...]
    trial_id: str
    run_id: str
    hidden: tuple[str, ...] = ()
    cpus: str = ""
    cpu_quota: float | None = None
    memory_bytes: int | None = None
    pids: int | None = 16_384
    gpu: GpuAccess | None = None
    network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended; a negative `code` is the signal that killed a local process.

    Attributes:
        removed: somebody else removed the container, with its log.
    """

    code: int
    out_of_memory: bool
    removed: bool = False


class Container(Protocol):
    """A started trial; any method may raise EngineError."""

    @property
    def id(self) -> str:
        """The engine's id of the container."""

    @property
    def pid(self) -> int | None:
        """Host process id of the first process; None if it has already ended."""

    def poll(self) -> Exit | None:
        """Return how it ended; None while it is running."""

    def paused(self) -> bool:
        """Return whether somebody has paused it."""

    def seen(self, path: str) -> str:
        """Return a path of the container as its process sees it."""

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr, without what is hidden."""

    def kill(self) -> None:
        """Kill it; no error if it has ended."""

    def remove(self) -> None:
        """Remove the container and its resources; no error if they are already gone."""


class Engine(Protocol):
    """Runs containers."""

    @property
    def info(self) -> EngineInfo:
        """Description of the engine for the manifest."""

    def start(self, spec: ContainerSpec) -> Container:
        """Start a trial or raise EngineError."""

    def remove_stale(self) -> None:
        """Remove leftovers of killed harnesses."""

    def answers(self) -> bool:
        """Return whether the engine still answers, so that after an error further trials can run."""

    def close(self) -> None:
        """Close the connection."""
