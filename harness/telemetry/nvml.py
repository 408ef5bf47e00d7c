"""The sources "nvml", read at every tick, and "nvml_slow", whose calls take longer or seldom change.

The driver averages utilisation over a sixth of a second to a second; gpm.py and nvml_utilisation.py resolve
shorter pauses. All sources are read at the start and end of a trial, so that differences of slow counters
cover it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pynvml

from harness.telemetry import Target
from harness.telemetry.gpu_source import Answers, Call, Fields, GpuSource, Handle, Reading

# Metric -> the field's number and the factor from its unit to the metric's. Numbers above 250 differ between
# NVML 12 and 13.
FAST: Mapping[str, tuple[int, float]] = {
    "power_instant_w": (pynvml.NVML_FI_DEV_POWER_INSTANT, 1e-3),
    "power_capped_s": (pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 1e-9),
}
# What changes too slowly to be worth asking for at every tick. The energy counter is not read: a read keeps a
# CPU busy for over 3 ms, and the integral of instant power is within 2 % of it.
SLOW: Mapping[str, tuple[int, float]] = {
    "mem_temperature_c": (pynvml.NVML_FI_DEV_MEMORY_TEMP, 1),
    "power_limit_w": (pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT, 1e-3),
    "ecc_corrected": (pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 1),
    "ecc_uncorrected": (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 1),
    "pcie_replays": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 1),
}
# Bits of the mask with metrics of their own.
_REASONS = {
    "throttle_sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "throttle_sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "throttle_hw_thermal": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
}
# PROC_PID_INIT_INO, the inode of the kernel's first PID namespace.
_HOST_NAMESPACE = "pid:[4026531836]"


class NvmlSource(GpuSource):
    """Utilisation, memory, power, temperature, clocks and throttling, at every tick."""

    name = "nvml"

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings of a tick."""
        return fast_readings()


class NvmlSlowSource(GpuSource):
    """Heat, errors, link state, power limit and other users of each GPU."""

    name = "nvml_slow"
    interval_s = 5.0

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings."""
        return slow_readings(target.pid)


def fast_readings() -> tuple[Reading, ...]:
    """Return the readings that are cheap enough for every tick."""
    return (
        Call(("gpu_util_pct", "mem_util_pct"), _utilisation),
        # Version 2 excludes what the driver reserves.
        Call(
            ("mem_used_bytes",),
            lambda gpu: (pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).used,),
        ),
        Fields(FAST),
        Call(("power_usage_w",), lambda gpu: (pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000,)),
        Call(
            ("temperature_c",),
            lambda gpu: (pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),),
        ),
        Call(("sm_clock_mhz",), lambda gpu: (pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),)),
        Call(("mem_clock_mhz",), lambda gpu: (pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),)),
        Call(
            ("throttle_reasons", *_REASONS),
            lambda gpu: _decoded(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
        ),
    )


def slow_readings(pid: int | None) -> tuple[Reading, ...]:
    """Return the slow readings; processes under `pid` are the trial's own."""
    return (
        Fields(SLOW),
        Call(("pcie_link_gen",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),)),
        Call(("pcie_link_width",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),)),
        OtherProcesses(pid),
        Xid(),
    )


class Xid(Reading):
    """Critical driver errors since sampling began."""

    def __init__(self) -> None:
        super().__init__(("xid_errors",))
        self._events: Any = None
        self._count = 0

    def read(self, handle: Handle) -> Answers:
        """Count pending events."""
        if self._events is None:
            self._events = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        with suppress(pynvml.NVMLError_Timeout):
            while True:
                pynvml.nvmlEventSetWait_v2(self._events, 0)
                self._count += 1
        return {"xid_errors": self._count}

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)


class OtherProcesses(Reading):
    """Processes on the GPU that do not descend from the trial's first process, `pid`."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(("foreign_processes", "foreign_mem_bytes"))
        self._pid = pid

    def read(self, handle: Handle) -> Answers:
        """Count them, and their memory if the driver reports it."""
        if not _in_host_namespace():
            reason = "NVML reports the host's process IDs, but the harness runs in a container."
            return dict.fromkeys(self.metrics, RuntimeError(reason))
        result = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        foreign = [each for each in result if not self._ours(each.pid)]
        values: dict[str, float | Exception] = {"foreign_processes": len(foreign)}
        if all(each.usedGpuMemory is not None for each in foreign):
            values["foreign_mem_bytes"] = sum(each.usedGpuMemory for each in foreign)
        return values

    def _ours(self, pid: int) -> bool:
        try:
            process = psutil.Process(pid)
            return pid == self._pid or any(parent.pid == self._pid for parent in process.parents())
        except psutil.NoSuchProcess:
            return True  # ended since NVML listed it
        except psutil.Error:
            return False


def _in_host_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _HOST_NAMESPACE
    except OSError:
        return False


def _utilisation(gpu: Handle) -> tuple[float, ...]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(gpu)
    return rates.gpu, rates.memory


def _decoded(reasons: int) -> tuple[float, ...]:
    return (reasons, *(int(bool(reasons & bit)) for bit in _REASONS.values()))
