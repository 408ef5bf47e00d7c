"""The sources "nvml", read at every tick, and "nvml_slow", for slow calls and values that rarely change.

The driver averages utilisation over 1/6 s to 1 s; gpm.py and nvml_utilisation.py resolve shorter pauses. All
sources are read at the start and end of a trial, so that differences of slow counters cover the whole trial.
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

# Metric -> field number, and factor from the field's unit to the metric's. Numbers above 250 differ between
# NVML 12 and 13.
FAST: Mapping[str, tuple[int, float]] = {
    "power_instant_w": (pynvml.NVML_FI_DEV_POWER_INSTANT, 1e-3),
    "power_capped_s": (pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 1e-9),
}
# Values that change slowly. The energy counter is not read: a read keeps a CPU busy for over 3 ms, and the
# integral of instant power is within 2 % of it.
SLOW: Mapping[str, tuple[int, float]] = {
    "mem_temperature_c": (pynvml.NVML_FI_DEV_MEMORY_TEMP, 1),
    "power_limit_w": (pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT, 1e-3),
    "ecc_corrected": (pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 1),
    "ecc_uncorrected": (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 1),
    "pcie_replays": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 1),
}
# Bits of the mask that have their own metrics.
_REASONS = {
    "throttle_sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "throttle_sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "throttle_hw_thermal": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "throttle_hw_slowdown": (
        pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    ),
}
# PROC_PID_INIT_INO, the inode of the kernel's first PID namespace.
_HOST_NAMESPACE = "pid:[4026531836]"


class NvmlSource(GpuSource):
    """Utilisation, memory, power, temperature, clocks and throttling, at every tick."""

    name = "nvml"

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the fast readings."""
        return fast_readings()


class NvmlSlowSource(GpuSource):
    """Memory temperature, errors, link state, power limit and other processes of each GPU, every 5 s."""

    name = "nvml_slow"
    interval_s = 5.0

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the slow readings."""
        return slow_readings(target.pid)


def fast_readings() -> tuple[Reading, ...]:
    """Return the readings that are cheap enough for every tick."""
    return (
        Call(("gpu_util_pct", "mem_util_pct"), _utilisation),
        # Version 2 excludes memory reserved by the driver.
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
            lambda gpu: _decode(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
        ),
    )


def slow_readings(pid: int | None) -> tuple[Reading, ...]:
    """Return the slow readings; `pid` and its descendants belong to the trial."""
    return (
        Fields(SLOW),
        Call(("pcie_link_gen",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),)),
        Call(("pcie_link_width",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),)),
        OtherProcesses(pid),
        Xid(),
    )


class Xid(Reading):
    """Critical driver errors (Xid events) since sampling started."""

    def __init__(self) -> None:
        super().__init__(("xid_errors",))
        self._events: Any = None
        self._count = 0

    def read(self, handle: Handle) -> Answers:
        """Count new events."""
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
    """Processes on the GPU other than `pid`, the trial's first process, and its descendants."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(("foreign_processes", "foreign_mem_bytes"))
        self._pid = pid

    def read(self, handle: Handle) -> Answers:
        """Count the processes, and their memory if the driver reports it."""
        if not _in_host_namespace():
            reason = "NVML reports the host's process IDs, but the harness runs in a container."
            return dict.fromkeys(self.metrics, RuntimeError(reason))
        result = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        foreign = [process for process in result if not self._is_own(process.pid)]
        values: dict[str, float | Exception] = {"foreign_processes": len(foreign)}
        if all(process.usedGpuMemory is not None for process in foreign):
            values["foreign_mem_bytes"] = sum(process.usedGpuMemory for process in foreign)
        return values

    def _is_own(self, pid: int) -> bool:
        try:
            process = psutil.Process(pid)
            return pid == self._pid or any(parent.pid == self._pid for parent in process.parents())
        except psutil.NoSuchProcess:
            return True  # ended after NVML listed it
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


def _decode(reasons: int) -> tuple[float, ...]:
    return (reasons, *(int(bool(reasons & bit)) for bit in _REASONS.values()))
