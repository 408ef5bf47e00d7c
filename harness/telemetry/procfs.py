"""The host's CPUs, memory, disks, network and pressure: one class for each file of /proc."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.telemetry.procfile import ProcFile, pressure

Values = dict[str, float]


class Part(Protocol):
    """One file of /proc: the metrics that come of it, and how."""

    def open(self, now_ns: int) -> Sequence[str]:
        """Open the file and return the metrics that `read` gives."""
        ...

    def read(self, now_ns: int) -> Values:
        """Read it; rates are over the time since the last read."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Processors:
    """/proc/stat: shares of time of all CPUs together, and context switches.

    The kernel counts in hundredths of a second: at 10 Hz one CPU moves in steps of 10 %.
    """

    _SHARES = ("cpu_util_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct")

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "stat")
        self._last: tuple[int, ...] = ()
        self._cores: dict[bytes, tuple[int, int, str]] = {}
        self._switches = 0
        self._at_ns = 0
        self.cores: Values = {}

    def open(self, now_ns: int) -> Sequence[str]:
        """Open /proc/stat and take the first reading."""
        self._file.open()
        self.read(now_ns)
        return (*self._SHARES, "context_switches_per_s", "procs_running")

    def core_metrics(self) -> Sequence[str]:
        """Return the names that `cores` will have."""
        return tuple(name for _, _, name in self._cores.values())

    def read(self, now_ns: int) -> Values:
        """Read all CPUs; `cores` then has the busy share of each."""
        # Between the CPUs and the rest stands one number for every interrupt there is.
        processors, _, rest = self._file.read().partition(b"intr ")
        first, *lines = processors.splitlines()
        fields = tuple(map(int, first.split()[1:9]))
        values = _shares(self._last, fields)
        self._last = fields
        self._read_cores(lines)
        counts = {row[0]: int(row[1]) for row in (line.split(None, 2) for line in rest.splitlines()[1:])}
        if self._at_ns and now_ns > self._at_ns:
            switches = counts[b"ctxt"] - self._switches
            values["context_switches_per_s"] = round(switches / (now_ns - self._at_ns) * 1e9, 1)
        values["procs_running"] = counts[b"procs_running"]
        self._switches = counts[b"ctxt"]
        self._at_ns = now_ns
        return values

    def _read_cores(self, lines: Sequence[bytes]) -> None:
        self.cores = {}
        for line in lines:
            name, *counts = line.split(None, 9)
            fields = tuple(map(int, counts[:8]))
            total, idle = sum(fields), fields[3] + fields[4]
            before = self._cores.get(name)
            if before is None:
                # Brought online since the start: it has no column.
                if not self._at_ns:
                    self._cores[name] = (total, idle, f"core{name[3:].decode()}_util_pct")
                continue
            if total > before[0]:
                share = 100.0 * (1 - (idle - before[1]) / (total - before[0]))
                self.cores[before[2]] = round(min(100.0, max(0.0, share)), 2)
            self._cores[name] = (total, idle, before[2])

    def close(self) -> None:
        """Close /proc/stat."""
        self._file.close()


def _shares(before: tuple[int, ...], after: tuple[int, ...]) -> Values:
    total = sum(after) - sum(before)
    if not before or total <= 0:
        return {}
    # A counter may run backwards by a tick (iowait, and idle on a CPU that was offline).
    user, nice, system, idle, iowait, irq, softirq, steal = (
        100.0 * max(0, b - a) / total for a, b in zip(before, after, strict=True)
    )
    return {
        "cpu_util_pct": round(max(0.0, 100.0 - idle - iowait), 2),
        "cpu_user_pct": round(user + nice, 2),
        "cpu_system_pct": round(system + irq + softirq, 2),
        "cpu_iowait_pct": round(iowait, 2),
        "cpu_steal_pct": round(steal, 2),
    }


class Memory:
    """/proc/meminfo."""

    _LINE = re.compile(rb"^(MemTotal|MemAvailable|Buffers|Cached|SwapTotal|SwapFree):\s+(\d+)", re.MULTILINE)

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "meminfo")

    def open(self, now_ns: int) -> Sequence[str]:
        """Open /proc/meminfo."""
        self._file.open()
        return tuple(self.read(now_ns))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        found = {name: int(kib) * 1024 for name, kib in self._LINE.findall(self._file.read())}
        return {
            "mem_used_bytes": found[b"MemTotal"] - found[b"MemAvailable"],
            "mem_available_bytes": found[b"MemAvailable"],
            "mem_cached_bytes": found[b"Buffers"] + found[b"Cached"],
            "swap_used_bytes": found[b"SwapTotal"] - found[b"SwapFree"],
        }

    def close(self) -> None:
        """Close it."""
        self._file.close()


class Load:
    """/proc/loadavg."""

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "loadavg")

    def open(self, now_ns: int) -> Sequence[str]:
        """Open /proc/loadavg."""
        self._file.open()
        return tuple(self.read(now_ns))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        return {"load1": float(self._file.read().split(None, 1)[0])}

    def close(self) -> None:
        """Close it."""
        self._file.close()


class Pressure:
    """One file of /proc/pressure or of a cgroup: cumulative seconds of stall.

    Args:
        path: the file.
        resource: "cpu", "mem" or "io", as in the metrics' names.
    """

    def __init__(self, path: Path, resource: str) -> None:
        self._file = ProcFile(path)
        self._resource = resource

    def open(self, now_ns: int) -> Sequence[str]:
        """Open it."""
        self._file.open()
        return tuple(self.read(now_ns))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        stalls = pressure(self._file.read())
        return {f"{self._resource}_pressure_{share}_s": seconds for share, seconds in stalls.items()}

    def close(self) -> None:
        """Close it."""
        self._file.close()
