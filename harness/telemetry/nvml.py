"""The source "nvml": what a GPU says at every tick. What takes longer is in nvml_slow.py.

Utilisation and memory utilisation come from the driver's own sampling period (a sixth of a second to a
second), which smooths short pauses away; gpm.py and nvml_buffers.py resolve them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import pynvml

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.nvml_card import Call, Card, Failed, Handle, Reading, open_cards, read_cards
from harness.telemetry.nvml_fields import FAST, Fields
from harness.telemetry.nvml_session import Session

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


class NvmlSource:
    """Utilisation, memory, power, temperature, clocks and what holds them down, at every tick.

    Args:
        session: NVML, shared with the other sources.
        now_ns: the clock.
    """

    name = "nvml"
    interval_s: float | None = None

    def __init__(self, session: Session, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._session = session
        self._now_ns = now_ns
        self._cards: tuple[Card, ...] = ()

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the target's GPUs; what they do not support is a gap each."""
        if not target.gpus:
            return {}
        self._cards = open_cards(self.name, target, gap, self._session, lambda uuid: fast_readings())
        return {card.device: card.metrics() for card in self._cards}

    def read(self) -> Iterable[Sample]:
        """Read every GPU."""
        return read_cards(self.name, self._cards, self._now_ns)

    def stop(self) -> None:
        """Let go of NVML."""
        if self._cards:
            self._cards = ()
            self._session.close()


class PowerUsage:
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

    def drop(self, metric: str) -> None:
        """Do nothing: it fails as a whole."""

    def reset(self) -> None:
        """Do nothing: there is no state."""


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
            lambda card: (pynvml.nvmlDeviceGetTemperatureV(card, pynvml.NVML_TEMPERATURE_GPU),),
            lambda card: (pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU),),
        ),
        Call(("sm_clock_mhz",), lambda card: (pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM),)),
        Call(("mem_clock_mhz",), lambda card: (pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_MEM),)),
        Call(("performance_state",), _performance_state),
        Call(
            ("throttle_reasons", *(name for _, name in _REASONS)),
            lambda card: _decoded(pynvml.nvmlDeviceGetCurrentClocksEventReasons(card)),
            lambda card: _decoded(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(card)),
        ),
    )


def _utilisation(card: Handle) -> tuple[float, ...]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(card)
    return rates.gpu, rates.memory


def _memory_v2(card: Handle) -> tuple[float, ...]:
    """Leave out what the driver reserves for itself, as the first version does not."""
    return (pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2).used,)


def _memory(card: Handle) -> tuple[float, ...]:
    return (pynvml.nvmlDeviceGetMemoryInfo(card).used,)


def _performance_state(card: Handle) -> tuple[float, ...]:
    state = pynvml.nvmlDeviceGetPerformanceState(card)
    if state == pynvml.NVML_PSTATE_UNKNOWN:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return (state,)


def _decoded(reasons: int) -> tuple[float, ...]:
    return (reasons, *(int(bool(reasons & bit)) for bit, _ in _REASONS))
