"""Judge the health of GPUs and host: thresholds with their sources, typed results, no sentences.

The table of Xids is from NVIDIA, "XID Errors" (GPU deployment and management documentation, table of common Xids and
"Working with Xid Errors"), shortened. Codes that an application can cause are not the machine's fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.model.device import of_gpus
from harness.model.platform import HOST, Health, HealthCheck, HealthItem, Level, State
from harness.model.run import Series, Trial

# A reading counts as taken under load at this GPU utilisation or more.
BUSY_PCT = 10.0
# DCGM's limit for PCIe replays a minute (DCGM_LIMIT_MAX_PCIREPLAY_RATE).
MAX_REPLAYS_PER_MIN = 8.0
# Shares of the time under load at a lowered clock: xprof calls a loss of 5 % moderate; hardware slowdown protects
# the board and does not occur in normal operation (NVML, nvmlClocksEventReasons).
NOTICED_SHARE, FAILED_SHARE = 0.01, 0.05
# Degrees below the slowdown threshold.
MIN_MARGIN_C = 3.0
MAX_STEAL_SHARE = 0.01
MIN_FREE_DISK = 0.05
# The page cache of the client is not the disk's, and a fault of the network is not the machine's.
_NETWORK_DISKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "fuse.sshfs"})
_HARDWARE_SLOWDOWN = 0x08 | 0x40 | 0x80  # NVML: HwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown
_SET_CLOCKS = 0x02  # NVML: ApplicationsClocksSetting

Answer = tuple[Level, Mapping[str, float]]


class _MissingError(Exception):
    """A reading that a check needs is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    """One device's readings before and after the run, and its telemetry in all trials; `alone` if a single GPU.

    Methods that return one number raise _MissingError without it.
    """

    health: Health
    trials: Sequence[Trial]
    alone: bool
    name: str

    @property
    def before(self) -> State:
        return self.health.before

    @property
    def last(self) -> State:
        return self.health.after or self.health.before

    def value(self, reading: str, state: State | None = None) -> float:
        value = (state or self.last).values.get(self.name, {}).get(reading)
        if not isinstance(value, (int, float)):
            raise _MissingError
        return value

    def text(self, reading: str) -> str:
        return str(self.last.values.get(self.name, {}).get(reading, ""))

    def word(self, reading: str) -> str:
        if not (text := self.text(reading)):
            raise _MissingError
        return text

    def increase(self, reading: str, default: float | None = None) -> float:
        try:
            now, then = self.value(reading), self.value(reading, self.before)
        except _MissingError:
            if default is None:
                raise
            return default
        # The driver was reset if a counter fell.
        return now - then if now >= then else now

    def facts(self, *readings: str) -> dict[str, float]:
        values = self.last.values.get(self.name, {})
        return {name: value for name in readings if isinstance(value := values.get(name), (int, float))}

    def readings(self) -> Iterator[tuple[Series, Sequence[Series]]]:
        """Yield the fast readings of each trial, and all of its readings of this device."""
        for trial in self.trials:
            own = [each for each in trial.telemetry if each.device == self.name]
            for fast in own:
                if fast.source == "nvml" and "gpu_util_pct" in fast.columns and len(fast.t_ns):
                    yield fast, own

    def loaded(self, metric: str) -> list[NDArray[np.float64]]:
        """Return a metric's readings under load, an array for each trial that has some."""
        result = []
        for fast, own in self.readings():
            for series in own:
                if metric in series.columns and series.source.startswith("nvml"):
                    busy = np.interp(series.t_ns, fast.t_ns, np.nan_to_num(fast.columns["gpu_util_pct"]))
                    values = series.columns[metric][busy >= BUSY_PCT]
                    result += [values[np.isfinite(values)]]
        return [each for each in result if len(each)]

    def highest(self, metric: str) -> list[float]:
        """Return a metric's highest reading under load in each trial that has some."""
        return [float(each.max()) for each in self.loaded(metric)]

    def time_share(self, bits: int) -> dict[str, float]:
        """Return the "share" of the readings under load in which NVML gave one of these reasons; {} without any."""
        if not (reasons := self.loaded("throttle_reasons")):
            return {}
        return {"share": float(np.mean(np.concatenate(reasons).astype(np.int64) & bits > 0))}


def _level(*, fails: bool = False, notable: bool = False) -> Level:
    return Level.FAIL if fails else Level.ATTENTION if notable else Level.OK


def _ecc(gpu: _Device) -> Answer:
    total, new = gpu.value("ecc_uncorrected"), gpu.increase("ecc_uncorrected", 0.0)
    facts = gpu.facts("ecc_uncorrected", "ecc_corrected", "ecc_uncorrected_ever") | {"new": new}
    # A corrected error costs nothing; NVIDIA remaps rows that repeat it.
    return _level(fails=bool(new), notable=bool(total)), facts


def _remapped(gpu: _Device) -> Answer:
    facts = gpu.facts("remapping_pending", "remapping_failed", "remapped_uncorrected", "remapped_corrected")
    # A pending remapping takes effect at the next reset; a failed one qualifies for replacement (NVIDIA GPU Memory
    # Error Management).
    pending, failed = gpu.value("remapping_pending"), facts.get("remapping_failed")
    return _level(fails=bool(failed), notable=bool(pending)), facts


def _nvlink(gpu: _Device) -> Answer:
    links, active = gpu.value("nvlinks"), gpu.value("nvlinks_active")
    errors = gpu.increase("nvlink_crc_errors", 0.0) + gpu.increase("nvlink_replays", 0.0)
    before = gpu.before.values.get(gpu.name, {}).get("nvlinks_active", active)
    # All links of a GPU that was passed to a machine without its neighbours are down.
    down = 0 < active < links or before != active
    notable = bool(errors) or (not active and not gpu.alone)
    return _level(fails=down, notable=notable), {"links": links, "active": active, "errors": errors}


def _pcie(gpu: _Device) -> Answer:
    facts: dict[str, float] = {}
    for name, metric in (("gen", "pcie_link_gen"), ("width", "pcie_link_width")):
        # The best of each trial, since a pause lowers it; the worst trial, since a link can train down later.
        if not (best := gpu.highest(metric)):
            raise _MissingError
        facts |= {name: min(best), f"max_{name}": gpu.value(f"pcie_max_{name}")}
    slow = facts["gen"] < facts["max_gen"] or facts["width"] < facts["max_width"]
    return _level(notable=slow), facts


def _replays(gpu: _Device) -> Answer:
    new, minutes = gpu.increase("pcie_replays"), (gpu.last.t_ns - gpu.before.t_ns) / 60e9
    return _level(notable=new > MAX_REPLAYS_PER_MIN * max(1.0, minutes)), {"new": new}


def _heat(gpu: _Device) -> Answer:
    hottest = max(gpu.highest("temperature_c") or [gpu.value("temperature_c")])
    limit = gpu.value("slowdown_c")
    return _level(notable=hottest > limit - MIN_MARGIN_C), {"hottest": hottest, "limit": limit}


def _slowdown(gpu: _Device) -> Answer:
    if not (facts := gpu.time_share(_HARDWARE_SLOWDOWN)):
        raise _MissingError
    share = facts["share"]
    return _level(fails=share >= FAILED_SHARE, notable=share >= NOTICED_SHARE), facts


def _power_limit(gpu: _Device) -> Answer:
    lowered = gpu.value("power_limit_w") < gpu.value("power_default_w")
    return _level(notable=lowered), gpu.facts("power_limit_w", "power_default_w", "power_max_w")


def _clocks(gpu: _Device) -> Answer:
    facts = gpu.facts("clock_set_mhz", "clock_default_mhz") | gpu.time_share(_SET_CLOCKS)
    if facts.keys() <= {"clock_default_mhz"}:
        raise _MissingError
    lowered = facts.get("clock_set_mhz", math.inf) < facts.get("clock_default_mhz", 0.0)
    return _level(notable=lowered or facts.get("share", 0.0) >= FAILED_SHARE), facts


def _flag(reading: str, *, notable: bool) -> Callable[[_Device], Answer]:
    return lambda gpu: (_level(notable=notable and bool(gpu.value(reading))), {"on": gpu.value(reading)})


def _processes(gpu: _Device) -> Answer:
    others = max(gpu.value("processes", gpu.before), *gpu.highest("foreign_processes"), 0.0)
    return _level(notable=others > 0), {"others": float(others)}


def _numa(gpu: _Device) -> Answer:
    node = gpu.value("numa_node")
    used = str(gpu.last.values.get(HOST, {}).get("numa_nodes", ""))
    # -1: the firmware does not say, as in most virtual machines.
    if node < 0 or not used:
        raise _MissingError
    nodes = used.split(",")
    return _level(notable=str(int(node)) not in nodes), {"node": node, "nodes": float(len(nodes))}


def _steal(host: _Device) -> Answer:
    stolen, total = host.increase("steal_s"), host.increase("cpu_s")
    if not total:
        raise _MissingError
    return _level(notable=stolen / total > MAX_STEAL_SHARE), {"share": stolen / total}


def _swap(host: _Device) -> Answer:
    moved = host.increase("swapped_bytes")
    return _level(notable=moved > 0), {"bytes": moved}


def _memory(host: _Device) -> Answer:
    new = host.increase("memory_errors")
    return _level(fails=new > 0), {"new": new}


def _disk(host: _Device) -> Answer:
    free, kind = host.value("disk_free_share"), host.text("disk_type")
    return _level(notable=free < MIN_FREE_DISK or kind in _NETWORK_DISKS), {"free": free}


# HealthCheck -> function, the reading whose absence explains that it is not readable, and a reading shown as text.
_Checks = Mapping[HealthCheck, tuple[Callable[[_Device], Answer], str, str]]
_GPU: _Checks = {
    HealthCheck.ECC: (_ecc, "ecc_uncorrected", ""),
    HealthCheck.REMAPPED: (_remapped, "remapping", ""),
    HealthCheck.NVLINK: (_nvlink, "nvlinks", ""),
    HealthCheck.PCIE: (_pcie, "pcie_max_gen", ""),
    HealthCheck.REPLAYS: (_replays, "pcie_replays", ""),
    HealthCheck.HEAT: (_heat, "slowdown_c", ""),
    HealthCheck.SLOWDOWN: (_slowdown, "", ""),
    HealthCheck.POWER_LIMIT: (_power_limit, "power_limit_w", ""),
    HealthCheck.CLOCKS: (_clocks, "clock_set_mhz", ""),
    HealthCheck.PERSISTENCE: (_flag("persistence", notable=False), "persistence", ""),
    HealthCheck.MIG: (_flag("mig", notable=True), "mig", ""),
    HealthCheck.CONFIDENTIAL: (_flag("confidential", notable=True), "confidential", ""),
    HealthCheck.PROCESSES: (_processes, "processes", ""),
    HealthCheck.NUMA: (_numa, "numa_node", ""),
}
_HOST: _Checks = {
    HealthCheck.STEAL: (_steal, "", ""),
    HealthCheck.GOVERNOR: (
        lambda host: (_level(notable=host.word("governor") != "performance"), {}), "", "governor",
    ),
    HealthCheck.SWAP: (_swap, "", ""),
    HealthCheck.HUGE_PAGES: (
        lambda host: (_level(notable=host.word("huge_pages") == "never"), {}), "", "huge_pages",
    ),
    HealthCheck.MEMORY: (_memory, "", ""),
    HealthCheck.DISK: (_disk, "", "disk_type"),
}  # fmt: skip


def health_items(health: Health | None, gpus: int, trials: Sequence[Trial]) -> tuple[HealthItem, ...]:
    """Return the checks of the first `gpus` GPUs and of the host; none without recorded health."""
    if health is None:
        return ()
    items: list[HealthItem] = []
    for position in range(gpus):
        gpu = _Device(health=health, trials=trials, alone=gpus < 2, name=of_gpus(position))
        lost = gpu.text("lost")
        items.append(
            HealthItem(device=gpu.name, check=HealthCheck.LOST, level=_level(fails=bool(lost)), text=lost)
        )
        items += _xids(gpu)
        if not lost:
            items += [_item(gpu, check, *rest) for check, rest in _GPU.items()]
    host = _Device(health=health, trials=trials, alone=True, name=HOST)
    return (*items, *(_item(host, check, *rest) for check, rest in _HOST.items()))


def _item(
    device: _Device, check: HealthCheck, judge: Callable[[_Device], Answer], reading: str, shown: str
) -> HealthItem:
    try:
        level, facts = judge(device)
    except _MissingError:
        why = device.last.missing.get(device.name, {}).get(reading, "")
        return HealthItem(device=device.name, check=check, level=Level.UNREADABLE, text=why)
    text = device.text(shown) if shown else ""
    return HealthItem(device=device.name, check=check, level=level, facts=facts, text=text)


def _xids(gpu: _Device) -> Iterator[HealthItem]:
    """Yield an item for each code; an Xid from before the run deserves attention, but may be settled."""
    own = [each for each in gpu.health.xids if each.device == gpu.name]
    unwatched = gpu.before.missing.get(gpu.name, {}).get("xid")
    if not own:
        level = Level.UNREADABLE if unwatched else Level.OK
        yield HealthItem(device=gpu.name, check=HealthCheck.XID, level=level, text=unwatched or "")
    for code in dict.fromkeys(each.code for each in own):
        during = sum(each.code == code and each.during for each in own)
        level = _level(fails=bool(during) and XIDS.get(code, UNKNOWN).fails, notable=True)
        facts = {"code": float(code), "during": float(during)}
        yield HealthItem(device=gpu.name, check=HealthCheck.XID, level=level, facts=facts)


class XidMeaning(NamedTuple):
    """What an Xid means and what to do; `fails` if the GPU is not to be used before that."""

    meaning: str
    action: str
    fails: bool


_APPLICATION = "check the application; if it recurs with others, run dcgmi diag"
_RESET = "stop all work and reset the GPU"
_REPORT = "drain the node, run field diagnostics and report it to the vendor"

XIDS: Mapping[int, XidMeaning] = {
    8: XidMeaning("a kernel ran into its time limit", _APPLICATION, False),
    13: XidMeaning("graphics engine exception", _APPLICATION, False),
    31: XidMeaning("memory page fault", _APPLICATION, False),
    32: XidMeaning("corrupted push buffer", _APPLICATION, False),
    38: XidMeaning("driver firmware error", "update the driver, then report it", True),
    43: XidMeaning("GPU stopped processing an application", _APPLICATION, False),
    45: XidMeaning("preemptive cleanup after another error", "look for the error before it", False),
    48: XidMeaning("uncorrectable (double-bit) ECC error", _RESET, True),
    61: XidMeaning("internal micro-controller warning", _RESET, True),
    62: XidMeaning("internal micro-controller halt", _RESET, True),
    63: XidMeaning("row remapping or page retirement recorded", "reset the GPU when idle", False),
    64: XidMeaning("row remapping or page retirement failed", _REPORT, True),
    68: XidMeaning("video processor exception", _APPLICATION, False),
    69: XidMeaning("graphics engine class error", _APPLICATION, False),
    74: XidMeaning("NVLink error", f"{_RESET}; if it recurs, check the links", True),
    79: XidMeaning("GPU has fallen off the bus", "reboot; if it recurs, check power and seating", True),
    92: XidMeaning("high rate of corrected ECC errors", "run field diagnostics", False),
    94: XidMeaning("contained memory error", "restart the application, reset the GPU when idle", False),
    95: XidMeaning("uncontained memory error", _RESET, True),
    109: XidMeaning("context switch timeout", _APPLICATION, False),
    119: XidMeaning("GSP firmware does not answer", _RESET, True),
    120: XidMeaning("GSP firmware error", _RESET, True),
    121: XidMeaning("C2C link error", "reset the GPU when idle", False),
    136: XidMeaning("link training failed", _REPORT, True),
    137: XidMeaning("NVLink privilege error", _APPLICATION, False),
    140: XidMeaning("unrecovered ECC error", _RESET, True),
    143: XidMeaning("GPU initialisation failed", _REPORT, True),
    149: XidMeaning("NVLink error", f"{_RESET}; if it recurs, check the links", True),
    154: XidMeaning("the recovery action of the GPU changed", "see nvidia-smi -q, GPU Recovery Action", True),
}
UNKNOWN = XidMeaning("not in this table", "look it up in NVIDIA's Xid catalogue", False)
