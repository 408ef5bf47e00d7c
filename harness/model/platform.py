"""The machine: GPUs, engines and images that trials use; its recorded state around a run, and what that means.

Kept free of slow imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workloads.protocol import TENSORFLOW

# The device of what belongs to the machine and not to a GPU.
HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as described by NVML; None means "not available", never 0."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    driver_version: str
    cuda_version: str
    compute_capability: str | None
    power_limit_w: float | None
    power_default_limit_w: float | None
    ecc_enabled: bool | None
    mig_enabled: bool | None
    mig_uuid: str = ""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    clock_max_sm_mhz: int | None = None
    clock_max_mem_mhz: int | None = None
    minor_number: int | None = None  # of /dev/nvidia<minor>

    @property
    def cuda_id(self) -> str:
        """UUID for CUDA and NVML: that of the MIG instance if there is one, else the GPU's."""
        return self.mig_uuid or self.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine that ran the containers. `isolated` is False for the local engine."""

    name: str
    version: str
    isolated: bool
    rootless: bool | None = None
    cgroup_version: int | None = None
    gpu_access: str = ""  # "toolkit", "cdi", "devices", "host" (not isolated) or ""
    runtimes: tuple[str, ...] = ()  # OCI runtimes registered with the engine
    cdi_folders: tuple[str, ...] = ()  # search paths of CDI specifications


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image used by a run.

    `digest` is the engine's content id. `lock_sha256` is "" for a user's own image. `contents` is a hash of
    files and settings only, independent of when and where the image was built; "" without an image. `sbom_sha256`
    is the hash of sbom-TARGET.cdx.json in the run folder, "" for images that tfbench did not build.
    """

    target: str
    reference: str
    digest: str
    base: str
    lock_sha256: str
    contents: str = ""
    sbom_sha256: str = ""


def target_for(image: str, *, gpu: bool) -> str:
    """Return a family's image target: "cpu" or "cuda" for TensorFlow, else "NAME-cpu" or "NAME-cuda"."""
    kind = "cuda" if gpu else "cpu"
    return kind if image == TENSORFLOW else f"{image}-{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What drivers and kernel said at one time (CLOCK_MONOTONIC, nanoseconds).

    Attributes:
        values: device ("gpu0", HOST) -> reading -> value; harness.system.health_readings names the readings.
        missing: device -> reading -> why it could not be read.
    """

    t_ns: int
    values: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    missing: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An error event of the NVIDIA driver; `during` the run, or earlier since the machine started."""

    device: str
    code: int
    during: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a machine around a run; `after` is None while the run is in progress."""

    before: State
    after: State | None = None
    xids: tuple[Xid, ...] = ()


# What NVML's link between two GPUs is called.
NVLINK = "NVLink"


def link_to(device: str) -> str:
    """Return the name of a GPU's reading that says what connects it with another GPU."""
    return f"link {device}"


class Level(StrEnum):
    """The outcome of a health check."""

    OK = "ok"
    ATTENTION = "attention"
    FAIL = "fail"
    UNREADABLE = "not readable"


class HealthCheck(StrEnum):
    """What is checked; those of the host come last."""

    LOST = "GPU answers"
    XID = "driver errors (Xid)"
    ECC = "memory errors (ECC)"
    ANSWERS = "same results under load"
    REMAPPED = "row remapping"
    NVLINK = "NVLink"
    PCIE = "PCIe link under load"
    REPLAYS = "PCIe replays"
    HEAT = "temperature"
    SLOWDOWN = "hardware slowdown"
    POWER_LIMIT = "power limit"
    CLOCKS = "clock settings"
    PERSISTENCE = "persistence mode"
    MIG = "MIG"
    CONFIDENTIAL = "confidential computing"
    PROCESSES = "other GPU processes"
    NUMA = "NUMA node"
    STEAL = "steal"
    GOVERNOR = "CPU governor"
    SWAP = "swapping"
    HUGE_PAGES = "transparent huge pages"
    MEMORY = "memory errors of the host"
    DISK = "disk of the data"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthItem:
    """The outcome of one check of one device.

    Attributes:
        facts: name -> observed value, for messages.
        text: an observed word, or why the check is not readable.
    """

    device: str
    check: HealthCheck
    level: Level
    facts: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
