"""The source "nvml_util": utilisation samples buffered by the driver.

The driver samples more often than the harness could and buffers over 10 s of samples, so occasional reads
give a finer curve than polling.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pynvml

from harness.telemetry import Sample, Target
from harness.telemetry.gpu_source import Answers, GpuSource, Handle, Reading, plausible, value_of

METRIC = "gpu_util_pct"


class BufferedSamples(Reading):
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
        stamped = sorted((each.timeStamp, value_of(kind, each.sampleValue)) for each in samples)
        self.new = [each for each in stamped if each[0] > self._since_us and plausible(METRIC, each[1])]
        self._since_us = max(self._since_us, *(stamp_us for stamp_us, _ in self.new), 0)
        return {}


class UtilisationSource(GpuSource):
    """The driver's samples of every GPU of the target."""

    name = "nvml_util"
    interval_s = 5.0

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
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
