"""The recorded state of a machine before and after a run, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# The device of what belongs to the machine and not to a GPU.
HOST = "host"


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
    """The state of a machine around a run; `after` is None while it is going on."""

    before: State
    after: State | None = None
    xids: tuple[Xid, ...] = ()


class Level(StrEnum):
    """The outcome of a health check."""

    OK = "ok"
    ATTENTION = "attention"
    FAIL = "fail"
    UNREADABLE = "not readable"


class Check(StrEnum):
    """What is checked; those of the host come last."""

    LOST = "GPU answers"
    XID = "driver errors (Xid)"
    ECC = "memory errors (ECC)"
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
    check: Check
    level: Level
    facts: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
