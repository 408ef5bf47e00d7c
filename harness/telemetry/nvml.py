"""The GPU sources "nvml" (at every tick), "nvml_slow", "gpm" and "nvml_util".

The driver averages utilisation over 1/6 s to 1 s; gpm and nvml_util resolve shorter pauses. All are read at the
start and end of a trial, so that differences of slow counters cover the whole trial.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pynvml

from harness.model.metrics import plausible
from harness.telemetry import Sample, Target
from harness.telemetry.gpu_source import (
    Answers,
    Fields,
    GpuReading,
    GpuSource,
    Handle,
    NvmlCall,
    value_of,
)

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
_MAX_EVENTS = 1_000
_MIB = 1024 * 1024
# NVML_GPM_METRIC_GRAPHICS_UTIL is omitted: on an H200 it takes 1.1 ms of CPU time per call, all others
# together 0.4 ms, and the source "nvml_util" gives the same value within one percentage point.
GPM_METRICS: Mapping[str, tuple[int, float]] = {
    "sm_util_pct": (pynvml.NVML_GPM_METRIC_SM_UTIL, 1),
    "sm_occupancy_pct": (pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, 1),
    "tensor_util_pct": (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 1),
    "dram_util_pct": (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 1),
    "pcie_send_bytes_per_s": (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, _MIB),
    "pcie_receive_bytes_per_s": (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, _MIB),
    "nvlink_send_bytes_per_s": (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, _MIB),
    "nvlink_receive_bytes_per_s": (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, _MIB),
}
METRIC = "gpu_util_pct"


class NvmlSource(GpuSource):
    """Utilisation, memory, power, temperature, clocks and throttling, at every tick."""

    name = "nvml"

    def readings(self, uuid: str, target: Target) -> Sequence[GpuReading]:
        """Return the readings that are cheap enough for every tick."""
        temperature, sm, memory = pynvml.NVML_TEMPERATURE_GPU, pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
        return (
            NvmlCall(("gpu_util_pct", "mem_util_pct"), _utilisation),
            NvmlCall(("mem_used_bytes",), _memory),
            Fields(FAST),
            NvmlCall(("power_usage_w",), lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
            NvmlCall(("temperature_c",), lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, temperature)),
            NvmlCall(("sm_clock_mhz",), lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, sm)),
            NvmlCall(("mem_clock_mhz",), lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, memory)),
            NvmlCall(("throttle_reasons", *_REASONS), _throttling),
        )


class NvmlSlowSource(GpuSource):
    """Memory temperature, errors, link state, power limit and other processes of each GPU, every 5 s."""

    name = "nvml_slow"
    interval_s = 5.0

    def readings(self, uuid: str, target: Target) -> Sequence[GpuReading]:
        """Return the slow readings; the target's process and its descendants are the trial's own."""
        return (
            Fields(SLOW),
            NvmlCall(("pcie_link_gen",), pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
            NvmlCall(("pcie_link_width",), pynvml.nvmlDeviceGetCurrPcieLinkWidth),
            OtherProcesses(target.pid),
            XidCount(),
        )


class XidEvents:
    """Xid events of one GPU since the object was made."""

    def __init__(self, gpu: Handle) -> None:
        self._events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def new(self) -> list[int]:
        """Return the codes of the events since the last call."""
        codes: list[int] = []
        # Also ends when the GPU is lost: what it reported before still counts.
        with suppress(pynvml.NVMLError):
            while len(codes) < _MAX_EVENTS:
                codes.append(int(pynvml.nvmlEventSetWait_v2(self._events, 0).eventData))
        return codes

    def close(self) -> None:
        """Free the event set."""
        with suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._events)


class XidCount(GpuReading):
    """Critical driver errors (Xid events) since sampling started."""

    def __init__(self) -> None:
        super().__init__(("xid_errors",))
        self._events: XidEvents | None = None
        self._count = 0

    def read(self, handle: Handle) -> Answers:
        """Count new events."""
        self._events = self._events or XidEvents(handle)
        self._count += len(self._events.new())
        return {"xid_errors": self._count}

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None:
            self._events.close()


class OtherProcesses(GpuReading):
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


def _memory(gpu: Handle) -> float:
    # Version 2 excludes memory reserved by the driver.
    used: int = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).used
    return used


def _throttling(gpu: Handle) -> tuple[float, ...]:
    reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    return (reasons, *(int(bool(reasons & bit)) for bit in _REASONS.values()))


class Gpm(GpuReading):
    """The GPM metrics of a GPU or MIG instance, computed from two alternating sample buffers.

    Each sample ends one averaging interval and starts the next.
    """

    def __init__(self, uuid: str) -> None:
        super().__init__(GPM_METRICS)
        self._mig = uuid.startswith("MIG-")
        self._buffers: list[Any] = []
        self._filled = False
        self._request: Any = None
        self._entries: dict[str, Any] = {}

    def read(self, handle: Handle) -> Answers:
        """Take a sample and return the averages since the previous one; {} for the first."""
        gpu = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if self._mig else handle
        if not self._buffers:
            if not pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._buffers = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        previous, current = self._buffers
        if self._mig:
            pynvml.nvmlGpmMigSampleGet(gpu, pynvml.nvmlDeviceGetGpuInstanceId(handle), current)
        else:
            pynvml.nvmlGpmSampleGet(handle, current)
        self._buffers = [current, previous]
        if not self._filled:
            self._filled = True
            return {}
        return self._averages(previous, current)

    def _averages(self, previous: Any, current: Any) -> Answers:
        if len(self._entries) != len(self.metrics):
            # Built once; the structure has space for hundreds of metrics.
            self._request = pynvml.c_nvmlGpmMetricsGet_t()
            self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
            self._request.numMetrics = len(self.metrics)
            self._entries = dict(zip(self.metrics, self._request.metrics, strict=False))
            for metric, entry in self._entries.items():
                entry.metricId = GPM_METRICS[metric][0]
        self._request.sample1, self._request.sample2 = previous, current
        pynvml.nvmlGpmMetricsGet(self._request)
        values: dict[str, float | Exception] = {}
        for metric, entry in self._entries.items():
            code, value = entry.nvmlReturn, entry.value
            if code == pynvml.NVML_SUCCESS and math.isfinite(value):
                values[metric] = round(value * GPM_METRICS[metric][1], 3)
            else:
                values[metric] = pynvml.NVMLError(code or pynvml.NVML_ERROR_NO_DATA)
        return values

    def close(self) -> None:
        """Free the buffers."""
        for buffer in self._buffers:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(buffer)


class GpmSource(GpuSource):
    """GPM metrics five times a second, in a separate thread."""

    name = "gpm"
    interval_s = 0.2

    def readings(self, uuid: str, target: Target) -> Sequence[GpuReading]:
        """Return the GPM reading."""
        return (Gpm(uuid),)


class BufferedSamples(GpuReading):
    """New samples in a GPU's buffer since `since_us` (microseconds since 1970, the driver's clock)."""

    def __init__(self, since_us: int) -> None:
        super().__init__((METRIC,))
        self._since_us = since_us
        self.new: list[tuple[int, float]] = []

    def read(self, handle: Handle) -> Answers:
        """Set `new` to the time stamps and values since the last call, oldest first."""
        self.new = []
        try:
            kind, samples = pynvml.nvmlDeviceGetSamples(
                handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, self._since_us
            )
        except pynvml.NVMLError as error:
            # NVML's errors if there are no new samples.
            if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA):
                return {}
            raise
        stamped = sorted((sample.timeStamp, value_of(kind, sample.sampleValue)) for sample in samples)
        self.new = [each for each in stamped if each[0] > self._since_us and plausible(METRIC, each[1])]
        self._since_us = max(self._since_us, *(stamp_us for stamp_us, _ in self.new), 0)
        return {}


class UtilisationSource(GpuSource):
    """The driver's samples of every GPU of the target."""

    name = "nvml_util"
    interval_s = 5.0

    def readings(self, uuid: str, target: Target) -> Sequence[GpuReading]:
        """Return a reading of the samples from now on."""
        return (BufferedSamples(time.time_ns() // 1000),)

    def read(self) -> Iterable[Sample]:
        """Return all new samples, with times converted to the sampler's clock."""
        for gpu in self._gpus:
            gpu.read()
            # Computed at each read, because the wall clock may be adjusted.
            offset_ns = time.monotonic_ns() - time.time_ns()
            for reading in gpu.readings:
                assert isinstance(reading, BufferedSamples)
                for stamp_us, value in reading.new:
                    t_ns = stamp_us * 1000 + offset_ns
                    yield Sample(t_ns=t_ns, device=gpu.device, values={METRIC: value})
