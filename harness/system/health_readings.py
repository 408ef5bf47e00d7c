"""Read the health of GPUs and host, as an ordinary user, before and after a run."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import psutil
import pynvml

from harness.model.device import of_gpus
from harness.model.platform import HOST, NVLINK, Gpu, Health, State, Xid, link_to
from harness.paths import nearest_existing
from harness.system.machine import cpu_governor, huge_pages, numa_nodes, text
from harness.telemetry.gpu_source import GPU_LOST, UNSUPPORTED, Fields, explain
from harness.telemetry.nvml import XidEvents

Values = Mapping[str, float | str]
_FIELDS: Mapping[str, tuple[int, float]] = {
    "pcie_replays": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 1),
    "nvlink_crc_errors": (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 1),
    "nvlink_replays": (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 1),
}
_SLOWDOWN = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_KERNEL_LOG = Path("/dev/kmsg")


def _ecc(kind: int, counter: int) -> Callable[[Any], float]:
    return lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, kind, counter)


def _remapped(gpu: Any) -> Values:
    names = ("remapped_corrected", "remapped_uncorrected", "remapping_pending", "remapping_failed")
    try:
        return dict(zip(names, map(float, pynvml.nvmlDeviceGetRemappedRows(gpu)), strict=True))
    except pynvml.NVMLError_NotSupported:
        # GPUs before Ampere retire pages instead.
        return {"remapping_pending": float(pynvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu))}


def _nvlinks(gpu: Any) -> Values:
    states: list[int] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(pynvml.nvmlDeviceGetNvLinkState(gpu, link))
        except pynvml.NVMLError as error:
            if not states or error.value not in UNSUPPORTED:
                raise
            break
    return {"nvlinks": float(len(states)), "nvlinks_active": float(sum(states))}


def _numa_node(gpu: Any) -> float:
    node = text(Path("/sys/bus/pci/devices") / _bus_of(gpu) / "numa_node")
    if not node:
        raise RuntimeError("The kernel does not say which NUMA node the GPU is on.")
    return float(node)


def _bus_of(gpu: Any) -> str:
    bus = pynvml.nvmlDeviceGetPciInfo(gpu).busId
    return _bus(bus.decode() if isinstance(bus, bytes) else bus)


def _bus(name: str) -> str:
    """Return a PCI address as the kernel writes it: "0000:3b:00.0"."""
    domain, _, rest = name.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


# Reading -> NVML call; a call that returns a mapping makes several readings.
_CALLS: Mapping[str, Callable[[Any], float | Values]] = {
    "ecc_uncorrected": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc_corrected": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc_uncorrected_ever": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
    "remapping": _remapped,
    "nvlinks": _nvlinks,
    "pcie_max_gen": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "pcie_max_width": pynvml.nvmlDeviceGetMaxPcieLinkWidth,
    "slowdown_c": lambda gpu: pynvml.nvmlDeviceGetTemperatureThreshold(gpu, _SLOWDOWN),
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_limit_w": lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "power_default_w": lambda gpu: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) / 1000,
    "power_max_w": lambda gpu: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[1] / 1000,
    "clock_set_mhz": lambda gpu: pynvml.nvmlDeviceGetApplicationsClock(gpu, pynvml.NVML_CLOCK_SM),
    "clock_default_mhz": lambda gpu: pynvml.nvmlDeviceGetDefaultApplicationsClock(gpu, pynvml.NVML_CLOCK_SM),
    "persistence": pynvml.nvmlDeviceGetPersistenceMode,
    "mig": lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu)[0],
    "confidential": lambda gpu: pynvml.nvmlSystemGetConfComputeState().ccFeature,
    "processes": lambda gpu: len(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)),
    "numa_node": _numa_node,
}


def gpu_state(uuid: str) -> tuple[dict[str, float | str], dict[str, str]]:
    """Return a GPU's readings, and why others are missing; NVML must be initialised."""
    values: dict[str, float | str] = {}
    missing: dict[str, str] = {}
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        for name, call in {**_CALLS, "fields": Fields(_FIELDS).read}.items():
            try:
                answer = call(handle)
            except (pynvml.NVMLError, RuntimeError) as error:
                if isinstance(error, pynvml.NVMLError) and error.value in GPU_LOST:
                    raise
                missing[name] = explain(error, uuid)
                continue
            for key, value in answer.items() if isinstance(answer, Mapping) else ((name, answer),):
                if isinstance(value, Exception):
                    missing[key] = explain(value, uuid)
                else:
                    values[key] = value
    except pynvml.NVMLError as error:
        return {"lost": explain(error, uuid)}, {}
    return values, missing


# Levels of PCI topology as NVML names them (nvmlGpuTopologyLevel_t), nearest first.
_TOPOLOGY = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "one board",
    pynvml.NVML_TOPOLOGY_SINGLE: "one PCIe switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "several PCIe switches",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "one PCIe host bridge",
    pynvml.NVML_TOPOLOGY_NODE: "one NUMA node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "two NUMA nodes",
}


def links(uuids: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return what NVML says connects each GPU with each other, and why it does not say it; NVML must be initialised.

    A virtual machine may hide the PCI topology or show one of its own (NVIDIA/nccl issue 2171).

    Args:
        uuids: device -> UUID of its GPU.
    """
    values: dict[str, dict[str, str]] = {device: {} for device in uuids}
    missing: dict[str, dict[str, str]] = {device: {} for device in uuids}
    for (one, uuid), (other, other_uuid) in permutations(uuids.items(), 2):
        try:
            values[one][link_to(other)] = _link(*map(pynvml.nvmlDeviceGetHandleByUUID, (uuid, other_uuid)))
        except pynvml.NVMLError as error:
            missing[one][link_to(other)] = explain(error, uuid)
    return values, missing


def _link(one: Any, other: Any) -> str:
    with suppress(pynvml.NVMLError):
        nvlink = pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if nvlink == pynvml.NVML_P2P_STATUS_OK:
            return NVLINK
    level = pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)
    return _TOPOLOGY.get(level, f"level {level}")


def host_state(cpus: str, data: Path) -> dict[str, float | str]:
    """Return the host's readings.

    Args:
        cpus: the CPUs that containers may use, "" for all.
        data: a folder on the disk of the data.
    """
    times, swap = psutil.cpu_times(), psutil.swap_memory()
    nearest = nearest_existing(data)
    disk = shutil.disk_usage(nearest)
    mounts = [
        partition
        for partition in psutil.disk_partitions(all=True)
        if nearest.is_relative_to(partition.mountpoint)
    ]
    errors = [text(path) for path in Path("/sys/devices/system/edac/mc").glob("mc*/ue_count")]
    values: dict[str, float | str | None] = {
        "cpu_s": sum(times[:8]),  # guests' time is part of user time
        "steal_s": getattr(times, "steal", None),
        "swapped_bytes": float(swap.sin + swap.sout),
        "governor": cpu_governor() or None,
        "huge_pages": huge_pages(),
        "numa_nodes": ",".join(numa_nodes(cpus)) or None,
        "memory_errors": float(sum(map(int, errors))) if errors and all(map(str.isdigit, errors)) else None,
        "disk_type": max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else None,
        "disk_free_share": 1 - disk.used / max(1, disk.total),
    }
    return {name: value for name, value in values.items() if value is not None}


def kernel_xids(path: Path = _KERNEL_LOG) -> tuple[tuple[str, int], ...]:
    """Return (PCI address, code) of the Xids in the kernel log.

    Raises:
        OSError: an ordinary user may not read it here.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        records: list[str] = []
        while True:
            try:
                record = os.read(file, 8192)
            except BlockingIOError:  # the end of /dev/kmsg
                break
            except BrokenPipeError:  # a record that was overwritten meanwhile
                continue
            if not record:
                break
            records.append(record.decode(errors="replace"))
    finally:
        os.close(file)
    return tuple((_bus(bus), int(code)) for bus, code in _XID.findall("".join(records)))


class HealthWatch:
    """Reads GPUs and host, and collects Xids in between.

    Args:
        gpus: those of the run, in its order.
        cpus, data: as for `host_state`.
    """

    def __init__(self, gpus: Sequence[Gpu], cpus: str, data: Path, log: Path = _KERNEL_LOG) -> None:
        self._gpus = {of_gpus(position): gpu.cuda_id for position, gpu in enumerate(gpus)}
        self._cpus, self._data, self._log = cpus, data, log
        self._buses: dict[str, str] = {}
        self._events: dict[str, XidEvents] = {}
        self._unwatched: dict[str, str] = {}
        self._before: tuple[tuple[str, int], ...] = ()

    def begin(self) -> Health:
        """Read the state before a run and start to collect Xids."""
        for device, uuid in self._gpus.items():
            try:
                pynvml.nvmlInit()
                gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                with suppress(pynvml.NVMLError):
                    self._buses[_bus_of(gpu).partition(".")[0]] = device
                self._events[device] = XidEvents(gpu)
            except pynvml.NVMLError as error:
                self._unwatched[device] = explain(error, uuid)
        state = self._state()
        with suppress(OSError):
            self._before = kernel_xids(self._log)
        return Health(before=state, xids=self._logged(self._before, during=False))

    def end(self, health: Health) -> Health:
        """Read the state after the run and add its Xids."""
        events = [(device, code) for device, watch in self._events.items() for code in watch.new()]
        xids = [Xid(device=device, code=code, during=True) for device, code in events]
        with suppress(OSError):
            new = kernel_xids(self._log)[len(self._before) :]
            xids += [
                each for each in self._logged(new, during=True) if (each.device, each.code) not in events
            ]
        ended = replace(health, after=self._state(), xids=(*health.xids, *xids))
        for watch in self._events.values():
            watch.close()
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        return ended

    def _logged(self, xids: Sequence[tuple[str, int]], *, during: bool) -> tuple[Xid, ...]:
        return tuple(
            Xid(device=self._buses[bus.partition(".")[0]], code=code, during=during)
            for bus, code in xids
            if bus.partition(".")[0] in self._buses
        )

    def _state(self) -> State:
        values, missing = {}, {}
        between, unknown = links(self._gpus)
        for device, uuid in self._gpus.items():
            values[device], missing[device] = gpu_state(uuid)
            values[device] |= between[device]
            missing[device] |= unknown[device]
            if device in self._unwatched:
                missing[device]["xid"] = self._unwatched[device]
        values[HOST] = host_state(self._cpus, self._data)
        return State(t_ns=time.monotonic_ns(), values=values, missing=missing)


@contextmanager
def watching(watch: HealthWatch, earlier: Health | None, save: Callable[[Health], object]) -> Iterator[None]:
    """Save the health before and after the block; a run that continues keeps its `earlier` beginning."""
    health = watch.begin()
    if earlier:
        xids = dict.fromkeys((*earlier.xids, *health.xids))
        health = replace(health, before=earlier.before, xids=tuple(xids))
    save(health)
    try:
        yield
    finally:
        save(watch.end(health))
