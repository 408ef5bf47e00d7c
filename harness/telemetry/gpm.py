"""The source "gpm": activity of a GPU's parts by hardware counters (Hopper and newer).

Each reading averages exactly the time since the last one, so that alternating load is visible, and a kernel
on one SM is not taken for a busy GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from harness.telemetry import Target
from harness.telemetry.gpu_source import Answers, GpuSource, Handle, Reading

_MIB = 1024 * 1024
# NVML_GPM_METRIC_GRAPHICS_UTIL is left out: on an H200 it takes 1.1 ms of CPU time per call, all others
# together 0.4, and the source "nvml_util" has the same within a point.
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


class Gpm(Reading):
    """The GPM metrics of a GPU or MIG instance, from two alternating sample buffers.

    Each sample ends one reading and begins the next.
    """

    def __init__(self, uuid: str) -> None:
        super().__init__(GPM_METRICS)
        self._mig = uuid.startswith("MIG-")
        self._buffers: list[Any] = []
        self._filled = False
        self._request: Any = None
        self._answers: dict[str, Any] = {}

    def read(self, handle: Handle) -> Answers:
        """Take a sample and compare it with the one before, except for the first."""
        if not self._buffers:
            gpu = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if self._mig else handle
            if not pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._buffers = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        before, now = self._buffers
        self.take(handle, now)
        self._buffers = [now, before]
        if not self._filled:
            self._filled = True
            return {}
        return self.compare(before, now)

    def take(self, handle: Handle, buffer: Any) -> None:
        """Take a sample into `buffer`."""
        if self._mig:
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            pynvml.nvmlGpmMigSampleGet(parent, pynvml.nvmlDeviceGetGpuInstanceId(handle), buffer)
        else:
            pynvml.nvmlGpmSampleGet(handle, buffer)

    def compare(self, before: Any, now: Any) -> Answers:
        """Return the averages between two samples."""
        if len(self._answers) != len(self.metrics):
            self._prepare()
        self._request.sample1, self._request.sample2 = before, now
        pynvml.nvmlGpmMetricsGet(self._request)
        values: dict[str, float | Exception] = {}
        for metric, answer in self._answers.items():
            code, value = answer.nvmlReturn, answer.value
            if code == pynvml.NVML_SUCCESS and math.isfinite(value):
                values[metric] = round(value * GPM_METRICS[metric][1], 3)
            else:
                values[metric] = pynvml.NVMLError(code or pynvml.NVML_ERROR_NO_DATA)
        return values

    def _prepare(self) -> None:
        """Build the request, whose structure has room for hundreds of metrics, once."""
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self.metrics)
        self._answers = {metric: self._request.metrics[index] for index, metric in enumerate(self.metrics)}
        for metric, answer in self._answers.items():
            answer.metricId = GPM_METRICS[metric][0]

    def close(self) -> None:
        """Free the buffers."""
        for buffer in self._buffers:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(buffer)


class GpmSource(GpuSource):
    """GPM metrics five times a second, in a thread of their own."""

    name = "gpm"
    interval_s = 0.2

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the one reading."""
        return (Gpm(uuid),)
