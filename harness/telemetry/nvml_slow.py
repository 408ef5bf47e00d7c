"""The source "nvml_slow": counters that are expensive to read, what seldom changes, and calls that sleep.

The sampler reads a source when it starts and once more when it stops, so that the differences of these
counters cover the whole trial however far apart the readings between are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from harness.telemetry import Target
from harness.telemetry.gpu_processes import OtherProcesses
from harness.telemetry.nvml_fields import SLOW, TRAFFIC, Fields
from harness.telemetry.nvml_gpu import Call, Failed, GpuSource, Handle, Reading


class UnlessGpm(Reading):
    """A reading for GPUs without GPM, which tells the same for less, and misses nothing in between."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._needed: bool | None = None

    @property
    def metrics(self) -> Sequence[str]:
        """Return the reading's, unless GPM has them."""
        return () if self._needed is False else self._reading.metrics

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Read what GPM does not."""
        if self._needed is None:
            try:
                self._needed = not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
            except pynvml.NVMLError:
                self._needed = True
        return self._reading.read(handle, failed) if self._needed else {}

    def drop(self, metric: str) -> None:
        """Pass it on."""
        self._reading.drop(metric)

    def reset(self) -> None:
        """Pass it on."""
        self._reading.reset()


class Xid(Reading):
    """Critical errors of the driver, counted from the start of sampling."""

    metrics = ("xid_errors", "xid_last")

    def __init__(self) -> None:
        self._events: Any = None
        self._count = 0
        self._last: int | None = None

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Take all events that have come, without waiting for more."""
        if self._events is None:
            self._events = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        with suppress(pynvml.NVMLError_Timeout):
            while True:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                self._count += 1
                self._last = int(event.eventData)
        counted: dict[str, float] = {"xid_errors": self._count}
        return counted if self._last is None else counted | {"xid_last": self._last}

    def reset(self) -> None:
        """Free the event set: it belongs to an earlier initialisation."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)
            self._events = None


class NvmlSlowSource(GpuSource):
    """Energy, heat, traffic, errors, link state, power limit and other users of each GPU."""

    name = "nvml_slow"
    interval_s = 2.0

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings."""
        return (*slow_readings(target.pid), Xid())


def slow_readings(pid: int | None) -> tuple[Reading, ...]:
    """Return the slow readings but XID; processes under `pid` are the trial's own."""
    return (
        Fields(SLOW),
        Call(("pcie_link_gen",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),)),
        Call(("pcie_link_width",), lambda gpu: (pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),)),
        UnlessGpm(Fields(TRAFFIC)),
        UnlessGpm(Call(("pcie_send_bytes_per_s", "pcie_receive_bytes_per_s"), _pcie_throughput)),
        OtherProcesses(pid),
    )


def _pcie_throughput(gpu: Handle) -> Sequence[float]:
    # The driver measures for 20 ms in each direction, while the caller sleeps.
    counters = (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES)
    return [pynvml.nvmlDeviceGetPcieThroughput(gpu, counter) * 1024 for counter in counters]
