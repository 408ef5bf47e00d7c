"""The sources "nvml_power" and "nvml_util": the driver's own sample buffers, drained now and then.

The driver samples on its own, several times as often as a harness would, and keeps some seconds: a call
that drains them gets a finer curve than many calls do. They hold a little over 2 s of power, and more than
10 s of utilisation.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pynvml

from harness.model.run import Sample
from harness.telemetry import Target
from harness.telemetry.nvml_gpu import Answers, GpuSource, Handle, Reading, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One of the driver's buffers: NVML's number for it, the metric and scale of its values, and how often
    to drain it so that it never runs over."""

    source: str
    kind: int
    metric: str
    scale: float
    interval_s: float


POWER = Buffer(
    source="nvml_power",
    kind=pynvml.NVML_TOTAL_POWER_SAMPLES,
    metric="power_usage_w",
    scale=1e-3,
    interval_s=1.0,
)
UTILISATION = Buffer(
    source="nvml_util",
    kind=pynvml.NVML_GPU_UTILIZATION_SAMPLES,
    metric="gpu_util_pct",
    scale=1,
    interval_s=5.0,
)


class Drain(Reading):
    """What is new in a buffer of one GPU since the last call.

    Args:
        buffer: which.
        since_us: wall clock, microseconds since 1970 as the driver stamps its samples.
    """

    def __init__(self, buffer: Buffer, since_us: int) -> None:
        super().__init__((buffer.metric,))
        self._buffer = buffer
        self._since_us = since_us
        self._new: list[tuple[int, float]] = []

    def read(self, handle: Handle) -> Answers:
        """Keep what is new for `taken`."""
        try:
            kind, samples = pynvml.nvmlDeviceGetSamples(handle, self._buffer.kind, self._since_us)
        except pynvml.NVMLError as error:
            # Nothing new since the last call.
            if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA):
                return {}
            raise
        for stamp_us, value in sorted((each.timeStamp, number(kind, each.sampleValue)) for each in samples):
            if stamp_us > self._since_us:
                self._new.append((stamp_us, value * self._buffer.scale))
                self._since_us = stamp_us
        return {}

    def taken(self) -> Sequence[tuple[int, float]]:
        """Return time stamps and values that have come since the last call, oldest first."""
        new, self._new = self._new, []
        return new


class BufferSource(GpuSource):
    """One of the driver's buffers, for every GPU of the target.

    Args:
        buffer: POWER or UTILISATION.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self.name = buffer.source
        self.interval_s = buffer.interval_s
        self._buffer = buffer
        self._drains: dict[str, Drain] = {}

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return what drains the buffer, less what it holds from before."""
        self._drains[uuid] = Drain(self._buffer, time.time_ns() // 1000)
        return (self._drains[uuid],)

    def read(self) -> Iterable[Sample]:
        """Return every new sample, on the sampler's clock."""
        for gpu in self._gpus:
            gpu.read()
            # Anew each time: the wall clock is steered, and may be set.
            offset_ns = time.monotonic_ns() - time.time_ns()
            for stamp_us, value in self._drains[gpu.uuid].taken():
                yield Sample(
                    t_ns=stamp_us * 1000 + offset_ns,
                    source=self.name,
                    device=gpu.device,
                    values={self._buffer.metric: value},
                )
