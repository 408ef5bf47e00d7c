"""What sources of GPUs share: readings by NVML, and what happens when they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from harness.telemetry import GapSink, Sample, Target
from harness.telemetry.nvml_errors import GPU_LOST, UNSUPPORTED, explain

Handle = Any  # a ctypes pointer of pynvml's
# Metric -> value, or why there is none.
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


class Reading:
    """One NVML call, or several that belong together; unsupported metrics are removed from `metrics`."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self.metrics = list(metrics)

    def read(self, handle: Handle) -> Answers:
        """Call NVML; raise NVMLError if no metric can be read."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what NVML has allocated."""


class Call(Reading):
    """A call that returns the values of all of its metrics, in their order, or fails."""

    def __init__(self, metrics: Iterable[str], function: Callable[[Handle], Sequence[float]]) -> None:
        super().__init__(metrics)
        self._function = function

    def read(self, handle: Handle) -> Answers:
        """Call it."""
        return dict(zip(self.metrics, self._function(handle), strict=True))


class Fields(Reading):
    """Field values of NVML, by one call; each succeeds or fails by itself.

    Args:
        fields: metric -> the field's number and the factor from its unit to the metric's.
    """

    def __init__(self, fields: Mapping[str, tuple[int, float]]) -> None:
        super().__init__(fields)
        self._fields = fields

    def read(self, handle: Handle) -> Answers:
        """Read all supported fields."""
        fields = [self._fields[metric] for metric in self.metrics]
        answers = pynvml.nvmlDeviceGetFieldValues(handle, [number for number, _ in fields])
        return {
            metric: round(value_of(answer.valueType, answer.value) * scale, 9)
            if answer.nvmlReturn == pynvml.NVML_SUCCESS
            else pynvml.NVMLError(answer.nvmlReturn)
            for metric, (_, scale), answer in zip(self.metrics, fields, answers, strict=True)
        }


def value_of(kind: int, value: Any) -> float:
    """Return the member of NVML's union that `kind` names."""
    result: float = getattr(value, _UNION[kind])
    return result


@dataclass(slots=True, kw_only=True)
class WatchedGpu:
    """A GPU or MIG instance, and the readings that it supports; without a handle while it is lost."""

    device: str
    uuid: str
    readings: Sequence[Reading]
    gap: GapSink
    handle: Handle = None

    def metrics(self) -> Sequence[str]:
        """Return the metrics that are not known to be unsupported."""
        return tuple(metric for reading in self.readings for metric in reading.metrics)

    def read(self) -> Mapping[str, float]:
        """Read all supported metrics; none, and a gap, while the GPU is lost."""
        values: dict[str, float] = {}
        try:
            if self.handle is None:
                self.handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
            for reading in self.readings:
                self._add(reading, values)
        except pynvml.NVMLError as error:
            self._note("*", error)
            self.handle = None
            return {}
        if not all(reading.metrics for reading in self.readings):
            self.readings = [reading for reading in self.readings if reading.metrics]
        return values

    def _note(self, metric: str, error: Exception) -> None:
        self.gap(self.device, metric, explain(error, self.uuid))

    def _add(self, reading: Reading, values: dict[str, float]) -> None:
        """Take a reading; raise errors of the whole GPU."""
        try:
            answers = reading.read(self.handle)
        except pynvml.NVMLError as error:
            answers = dict.fromkeys(reading.metrics, error)
        for metric, answer in answers.items():
            if not isinstance(answer, Exception):
                values[metric] = answer
                continue
            code = answer.value if isinstance(answer, pynvml.NVMLError) else None
            if code in GPU_LOST:
                raise answer
            self._note(metric, answer)
            if code is None or code in UNSUPPORTED:
                reading.metrics.remove(metric)


class GpuSource:
    """A source of the target's GPUs; subclasses define name and readings. NVML counts initialisations."""

    name: str
    interval_s: float | None = None

    def __init__(self) -> None:
        self._gpus: tuple[WatchedGpu, ...] = ()

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings of one GPU."""
        raise NotImplementedError

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Read each GPU once, which finds unsupported metrics and warms up NVML."""
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
        """Read each GPU, with a time of its own."""
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
