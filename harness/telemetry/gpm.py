"""The source "gpm": activity of GPU units from hardware counters (Hopper and newer).

Each reading is the average since the previous one, so alternating load is visible, and a kernel on a single
SM does not look like a busy GPU.
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


class Gpm(Reading):
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
        if not self._buffers:
            gpu = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if self._mig else handle
            if not pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._buffers = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        previous, current = self._buffers
        self.take(handle, current)
        self._buffers = [current, previous]
        if not self._filled:
            self._filled = True
            return {}
        return self.averages(previous, current)

    def take(self, handle: Handle, buffer: Any) -> None:
        """Store a sample in `buffer`."""
        if self._mig:
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            pynvml.nvmlGpmMigSampleGet(parent, pynvml.nvmlDeviceGetGpuInstanceId(handle), buffer)
        else:
            pynvml.nvmlGpmSampleGet(handle, buffer)

    def averages(self, previous: Any, current: Any) -> Answers:
        """Return the averages between two samples."""
        if len(self._entries) != len(self.metrics):
            self._prepare()
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

    def _prepare(self) -> None:
        """Build the request once; its structure has space for hundreds of metrics."""
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self.metrics)
        self._entries = {metric: self._request.metrics[index] for index, metric in enumerate(self.metrics)}
        for metric, entry in self._entries.items():
            entry.metricId = GPM_METRICS[metric][0]

    def close(self) -> None:
        """Free the buffers."""
        for buffer in self._buffers:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(buffer)


class GpmSource(GpuSource):
    """GPM metrics five times a second, in a separate thread."""

    name = "gpm"
    interval_s = 0.2

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the GPM reading."""
        return (Gpm(uuid),)
