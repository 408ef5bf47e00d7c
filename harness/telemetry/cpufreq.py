"""The source "cpufreq": CPU clocks and thermal throttling, one file per CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from harness.telemetry import GapSink, Sample, Target
from harness.telemetry.kernel_files import KernelFile

_CLOCKS = ("cpu_freq_mhz", "cpu_freq_min_mhz", "cpu_freq_max_mhz")
_THROTTLE = "cpu_throttle_events"


def _clocks_mhz() -> Sequence[float]:
    return [each.current for each in psutil.cpu_freq(percpu=True)]


class FrequencySource:
    """Clocks of all logical CPUs in MHz, read once a second with `clocks`, and throttling events."""

    name = "cpufreq"
    interval_s: float | None = 1.0

    def __init__(self, root: Path = Path("/"), clocks: Callable[[], Sequence[float]] = _clocks_mhz) -> None:
        self._root = root
        self._clocks = clocks
        self._throttle: list[KernelFile] = []

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the available files; virtual machines often hide clocks and throttling."""
        paths = sorted(
            (self._root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        )
        for path in paths:
            with suppress(OSError):
                self._throttle.append(KernelFile(path))
        values = self._values()
        for metric in {*_CLOCKS, _THROTTLE} - values.keys():
            gap("host", metric, "This machine does not report CPU clocks or throttling.")
        return {"host": tuple(values)}

    def read(self) -> Iterable[Sample]:
        """Read all clocks and counters."""
        now_ns = time.monotonic_ns()
        if values := self._values():
            yield Sample(t_ns=now_ns, device="host", values=values)

    def _values(self) -> Mapping[str, float]:
        try:
            clocks = [clock for clock in self._clocks() if clock > 0]
        except (OSError, NotImplementedError, AttributeError):
            clocks = []
        result = (sum(clocks) / len(clocks), min(clocks), max(clocks)) if clocks else ()
        values = dict(zip(_CLOCKS, (round(mhz, 1) for mhz in result), strict=False))
        if self._throttle:
            values[_THROTTLE] = sum(int(file.read()) for file in self._throttle)
        return values

    def stop(self) -> None:
        """Close the files."""
        for file in self._throttle:
            file.close()
        self._throttle = []
