"""The sources "nvml_power" and "nvml_util": the driver's own sample buffers, drained now and then.

The driver samples on its own, several times as often as a harness would, and keeps some seconds: a call
that drains them gets a finer curve than many calls do. They hold a little over 2 s of power, and more than
10 s of utilisation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pynvml

from harness.model.run import Sample
from harness.telemetry import Target
from harness.telemetry.nvml_fields import number
from harness.telemetry.nvml_gpu import Failed, GpuSource, Handle, Reading


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
        self.new: list[tuple[int, float]] = []
        self._buffer = buffer
        self._since_us = since_us

    @property
    def metrics(self) -> Sequence[str]:
        """The buffer's metric."""
        return (self._buffer.metric,)

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Put what is new into `new`, oldest first."""
        try:
            kind, samples = pynvml.nvmlDeviceGetSamples(handle, self._buffer.kind, self._since_us)
        except pynvml.NVMLError as error:
            # Nothing new since the last call.
            if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA):
                return {}
            raise
        result = sorted((each.timeStamp, number(kind, each.sampleValue)) for each in samples)
        for stamp_us, value in result:
            if stamp_us > self._since_us:
                self.new.append((stamp_us, value * self._buffer.scale))
                self._since_us = stamp_us
        return {}


class BufferSource(GpuSource):
    """One of the driver's buffers, for every GPU of the target.

    Args:
        buffer: POWER or UTILISATION.
        now_ns, wall_ns: the sampler's clock, and the one that the driver stamps with.
    """

    def __init__(
        self,
        buffer: Buffer,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(now_ns)
        self.name = buffer.source
        self.interval_s = buffer.interval_s
        self._buffer = buffer
        self._wall_ns = wall_ns

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return what drains the buffer, less what it holds from before."""
        return (Drain(self._buffer, self._wall_ns() // 1000),)

    def read(self) -> Iterable[Sample]:
        """Return every new sample, on the sampler's clock."""
        for gpu in self._gpus:
            gpu.read()
            # Anew each time: the wall clock is steered, and may be set.
            offset_ns = self._now_ns() - self._wall_ns()
            for drain in gpu.readings:
                assert isinstance(drain, Drain)
                new, drain.new = drain.new, []
                for stamp_us, value in new:
                    t_ns = stamp_us * 1000 + offset_ns
                    values = {self._buffer.metric: value}
                    yield Sample(t_ns=t_ns, source=self.name, device=gpu.device, values=values)
