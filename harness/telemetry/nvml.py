"""The source "nvml": what a GPU says at every tick. What takes longer is in nvml_slow.py.

Utilisation and memory utilisation come from the driver's own sampling period (a sixth of a second to a
second), which smooths short pauses away; gpm.py and nvml_buffers.py resolve them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pynvml

from harness.telemetry import Target
from harness.telemetry.nvml_fields import FAST, Fields
from harness.telemetry.nvml_gpu import Call, Failed, GpuSource, Handle, Reading

_REASONS = (
    (pynvml.nvmlClocksEventReasonGpuIdle, "throttle_idle"),
    (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, "throttle_app_clocks"),
    (pynvml.nvmlClocksEventReasonSwPowerCap, "throttle_sw_power_cap"),
    (pynvml.nvmlClocksEventReasonHwSlowdown, "throttle_hw_slowdown"),
    (pynvml.nvmlClocksEventReasonSyncBoost, "throttle_sync_boost"),
    (pynvml.nvmlClocksEventReasonSwThermalSlowdown, "throttle_sw_thermal"),
    (pynvml.nvmlClocksEventReasonHwThermalSlowdown, "throttle_hw_thermal"),
    (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, "throttle_hw_power_brake"),
    (pynvml.nvmlClocksEventReasonDisplayClockSetting, "throttle_display_clock"),
)


class NvmlSource(GpuSource):
    """Utilisation, memory, power, temperature, clocks and what holds them down, at every tick."""

    name = "nvml"

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings of a tick."""
        return fast_readings()


class PowerUsage(Reading):
    """nvmlDeviceGetPowerUsage, for GPUs whose fields do not tell instant and average power apart.

    Args:
        fields: is read before.
    """

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    @property
    def metrics(self) -> Sequence[str]:
        """Return the metric while it may be needed."""
        needed = not self._fields.answered or "power_instant_w" not in self._fields.metrics
        return ("power_usage_w",) if needed else ()

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Ask for it where it is needed: it takes as long as all fields together."""
        return {metric: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000 for metric in self.metrics}


def fast_readings() -> tuple[Reading, ...]:
    """Return the readings of a tick, each cheap enough for it."""
    fields = Fields(FAST)
    return (
        Call(("gpu_util_pct", "mem_util_pct"), _utilisation),
        Call(("mem_used_bytes",), _memory_v2, _memory),
        fields,
        PowerUsage(fields),
        Call(
            ("temperature_c",),
            lambda gpu: (pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU),),
            lambda gpu: (pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),),
        ),
        Call(("sm_clock_mhz",), lambda gpu: (pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),)),
        Call(("mem_clock_mhz",), lambda gpu: (pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),)),
        Call(("performance_state",), _performance_state),
        Call(
            ("throttle_reasons", *(name for _, name in _REASONS)),
            lambda gpu: _decoded(pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
            lambda gpu: _decoded(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
        ),
    )


def _utilisation(gpu: Handle) -> tuple[float, ...]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(gpu)
    return rates.gpu, rates.memory


def _memory_v2(gpu: Handle) -> tuple[float, ...]:
    """Leave out what the driver reserves for itself, as the first version does not."""
    return (pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).used,)


def _memory(gpu: Handle) -> tuple[float, ...]:
    return (pynvml.nvmlDeviceGetMemoryInfo(gpu).used,)


def _performance_state(gpu: Handle) -> tuple[float, ...]:
    state = pynvml.nvmlDeviceGetPerformanceState(gpu)
    if state == pynvml.NVML_PSTATE_UNKNOWN:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return (state,)


def _decoded(reasons: int) -> tuple[float, ...]:
    return (reasons, *(int(bool(reasons & bit)) for bit, _ in _REASONS))
