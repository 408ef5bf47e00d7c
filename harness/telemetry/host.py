"""The source "host": what the whole machine does, read from /proc once a tick.

psutil gives the same numbers at several times the cost, since it opens every file anew and parses all of
it (benchmarks/sampling_cost.py prints both); where it does as well, as for clocks, it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.proc_rates import disks, interfaces
from harness.telemetry.procfs import Load, Memory, Part, Pressure, Processors, Values

HOST, CORES = "host", "cores"


class HostSource:
    """CPUs, memory, disks, network, pressure and load of this machine.

    Args:
        root: where proc and sys are, for tests.
        now_ns: the clock.
    """

    name = "host"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._now_ns = now_ns
        self._processors = Processors(root / "proc")
        self._parts: dict[str, tuple[Part, Sequence[str]]] = {}
        self._gap: GapSink = _no_gap

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open /proc; a file that is not there is a gap for its metrics."""
        self._gap = gap
        self._parts = {}
        proc, sys = self._root / "proc", self._root / "sys"
        candidates: tuple[tuple[str, Part], ...] = (
            ("stat", self._processors),
            ("meminfo", Memory(proc)),
            ("loadavg", Load(proc)),
            ("diskstats", disks(proc, sys)),
            ("self/net/dev", interfaces(proc, sys)),
            ("pressure/cpu", Pressure(proc / "pressure/cpu", "cpu")),
            ("pressure/memory", Pressure(proc / "pressure/memory", "mem")),
            ("pressure/io", Pressure(proc / "pressure/io", "io")),
        )
        for name, part in candidates:
            try:
                self._parts[name] = (part, part.open(self._now_ns()))
            except (OSError, ValueError, LookupError) as error:
                part.close()
                for metric in _METRICS_OF[name]:
                    gap(self.name, HOST, metric, _reason(name, error))
        columns = {HOST: tuple(metric for _, metrics in self._parts.values() for metric in metrics)}
        return columns | {CORES: tuple(self._processors.core_metrics())}

    def read(self) -> Iterable[Sample]:
        """Read every file once."""
        now_ns = self._now_ns()
        values: Values = {}
        for name, (part, metrics) in self._parts.items():
            try:
                values |= part.read(now_ns)
            except (OSError, ValueError, LookupError) as error:
                for metric in metrics:
                    self._gap(self.name, HOST, metric, _reason(name, error))
        yield Sample(t_ns=now_ns, source=self.name, device=HOST, values=values)
        if self._processors.cores:
            yield Sample(t_ns=now_ns, source=self.name, device=CORES, values=self._processors.cores)

    def stop(self) -> None:
        """Close the files."""
        for part, _ in self._parts.values():
            part.close()
        self._parts = {}


_METRICS_OF: Mapping[str, tuple[str, ...]] = {
    "stat": ("cpu_util_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct"),
    "meminfo": ("mem_used_bytes", "mem_available_bytes"),
    "loadavg": ("load1",),
    "diskstats": ("disk_read_bytes_per_s", "disk_write_bytes_per_s"),
    "self/net/dev": ("net_recv_bytes_per_s", "net_sent_bytes_per_s"),
    "pressure/cpu": ("cpu_pressure_some_s",),
    "pressure/memory": ("mem_pressure_some_s", "mem_pressure_full_s"),
    "pressure/io": ("io_pressure_some_s", "io_pressure_full_s"),
}


def _reason(name: str, error: Exception) -> str:
    if name.startswith("pressure") and isinstance(error, FileNotFoundError):
        return "This kernel does not account for pressure (boot it with psi=1)."
    return f"/proc/{name} cannot be read: {error}."


def _no_gap(source: str, device: str, metric: str, reason: str) -> None:
    """Stand in until `start` has been given where gaps go."""
