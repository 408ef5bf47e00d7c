"""NVML: base classes of the GPU sources, readings, and errors in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from harness.model.metrics import plausible
from harness.telemetry import GapSink, Sample, Target

_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "No NVIDIA driver is installed: libnvidia-ml.so.1 was not found.",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "The NVIDIA kernel driver is not loaded. Run nvidia-smi, or reboot.",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "The NVIDIA library and kernel driver have different versions after a driver update. Reboot."
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: "The GPU has fallen off the bus. Reset it or reboot.",
    pynvml.NVML_ERROR_RESET_REQUIRED: "The GPU must be reset before it can be used again.",
    pynvml.NVML_ERROR_NO_PERMISSION: "The current user has no permission for this NVML call.",
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML is not initialised: the driver was reset.",
    pynvml.NVML_ERROR_NOT_FOUND: "NVML no longer finds this GPU.",
    pynvml.NVML_ERROR_NO_DATA: "NVML has no value, or an impossible one.",
    pynvml.NVML_ERROR_UNKNOWN: "NVML reports an unknown error.",
}
# The metric is not available with this GPU, driver or user.
UNSUPPORTED = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_NO_PERMISSION,
    )
)
# The whole GPU is unreadable. All other errors are temporary.
GPU_LOST = frozenset(
    (
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_NOT_FOUND,
    )
)
Handle = Any  # a ctypes pointer from pynvml
# Metric -> value, or the error of its read.
Answers = Mapping[str, float | Exception]
_UNION = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def explain(error: Exception, uuid: str = "") -> str:
    """Describe an error in a sentence; `uuid` is that of the GPU or MIG instance."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error)
    code = error.value
    if uuid.startswith("MIG-") and code in UNSUPPORTED:
        return "Not available on a MIG instance, only for the whole GPU."
    if code in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
        return "This GPU does not support this metric."
    if code in UNSUPPORTED and code not in _HINTS:
        return "The installed driver does not support this metric."
    return _HINTS.get(code) or f"NVML error: {error}."


class GpuReading:
    """One or more related NVML calls; unsupported metrics are removed from `metrics`."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self.metrics = list(metrics)

    def read(self, handle: Handle) -> Answers:
        """Call NVML; raise NVMLError if no metric can be read."""
        raise NotImplementedError

    def close(self) -> None:
        """Free NVML's resources."""


class NvmlCall(GpuReading):
    """A function that returns the value, or a tuple of the values of all metrics in order, or fails."""

    def __init__(
        self, metrics: Iterable[str], function: Callable[[Handle], float | tuple[float, ...]]
    ) -> None:
        super().__init__(metrics)
        self._function = function

    def read(self, handle: Handle) -> Answers:
        """Call the function."""
        values = self._function(handle)
        return dict(zip(self.metrics, values if isinstance(values, tuple) else (values,), strict=True))


class Fields(GpuReading):
    """NVML field values, read in one call; each succeeds or fails separately.

    Args:
        fields: metric -> field number, and factor from the field's unit to the metric's.
    """

    def __init__(self, fields: Mapping[str, tuple[int, float]]) -> None:
        super().__init__(fields)
        self._fields = fields

    def read(self, handle: Handle) -> Answers:
        """Read all supported fields."""
        fields = [self._fields[metric] for metric in self.metrics]
        results = pynvml.nvmlDeviceGetFieldValues(handle, [number for number, _ in fields])
        return {
            metric: round(value_of(result.valueType, result.value) * scale, 9)
            if result.nvmlReturn == pynvml.NVML_SUCCESS
            else pynvml.NVMLError(result.nvmlReturn)
            for metric, (_, scale), result in zip(self.metrics, fields, results, strict=True)
        }


def value_of(kind: int, value: Any) -> float:
    """Return the member of NVML's value union for the value type `kind`."""
    result: float = getattr(value, _UNION[kind])
    return result


@dataclass(slots=True, kw_only=True)
class WatchedGpu:
    """A GPU or MIG instance and its supported readings; `handle` is None while the GPU is lost."""

    device: str
    uuid: str
    readings: Sequence[GpuReading]
    gap: GapSink
    handle: Handle = None

    def metrics(self) -> Sequence[str]:
        """Return the metrics, without those that turned out to be unsupported."""
        return tuple(metric for reading in self.readings for metric in reading.metrics)

    def read(self) -> Mapping[str, float]:
        """Read all supported metrics; while the GPU is lost, report a gap and return {}."""
        values: dict[str, float] = {}
        try:
            if self.handle is None:
                self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
            for reading in self.readings:
                self._add(reading, values)
        except pynvml.NVMLError as error:
            self._report("*", error)
            self.handle = None
            return {}
        if not all(reading.metrics for reading in self.readings):
            self.readings = [reading for reading in self.readings if reading.metrics]
        return values

    def _report(self, metric: str, error: Exception) -> None:
        self.gap(self.device, metric, explain(error, self.uuid))

    def _add(self, reading: GpuReading, values: dict[str, float]) -> None:
        """Add a reading's values; raise errors that concern the whole GPU."""
        try:
            results = reading.read(self.handle)
        except pynvml.NVMLError as error:
            results = dict.fromkeys(reading.metrics, error)
        for metric, answer in results.items():
            result = answer
            if not isinstance(result, Exception):
                if plausible(metric, result):
                    values[metric] = result
                    continue
                result = pynvml.NVMLError(pynvml.NVML_ERROR_NO_DATA)
            code = result.value if isinstance(result, pynvml.NVMLError) else None
            if code in GPU_LOST:
                raise result
            self._report(metric, result)
            if code is None or code in UNSUPPORTED:
                reading.metrics.remove(metric)


class GpuSource:
    """A source for the target's GPUs; subclasses define name and readings.

    Several sources may initialise NVML: it counts initialisations and shutdowns.
    """

    name: str
    interval_s: float | None = None

    def __init__(self) -> None:
        self._gpus: tuple[WatchedGpu, ...] = ()

    def readings(self, uuid: str, target: Target) -> Sequence[GpuReading]:
        """Return the readings of one GPU."""
        raise NotImplementedError

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Read each GPU once to find unsupported metrics and warm up NVML."""
        if not target.gpus:
            return {}
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            for device in target.gpus:
                gap(device, "*", explain(error))
            return {}
        self._gpus = tuple(
            WatchedGpu(device=device, uuid=uuid, readings=self.readings(uuid, target), gap=gap)
            for device, uuid in target.gpus.items()
        )
        for gpu in self._gpus:
            gpu.read()
        return {gpu.device: gpu.metrics() for gpu in self._gpus}

    def read(self) -> Iterable[Sample]:
        """Read each GPU, with its own time stamp."""
        for gpu in self._gpus:
            t_ns = time.monotonic_ns()
            values = gpu.read()
            if values:
                yield Sample(t_ns=t_ns, device=gpu.device, values=values)

    def stop(self) -> None:
        """Release NVML."""
        if self._gpus:
            for gpu in self._gpus:
                for reading in gpu.readings:
                    reading.close()
            self._gpus = ()
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
