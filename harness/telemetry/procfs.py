"""The host's processors, memory, disks, network and pressure: one class for each file of /proc."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from harness.telemetry.procfile import ProcFile, pressure

_SECTOR_BYTES = 512  # /proc/diskstats counts these whatever the device's own sectors are
_PAGE_CACHE = (b"Buffers:", b"Cached:")

Values = dict[str, float]


class Part(Protocol):
    """One file of /proc: the metrics that come of it, and how."""

    def open(self) -> Sequence[str]:
        """Open the file and return the metrics that `read` gives."""
        ...

    def read(self, now_ns: int) -> Values:
        """Read it; rates are over the time since the last read."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Processors:
    """/proc/stat: shares of time of all processors together, and context switches.

    The kernel counts in hundredths of a second: at 10 Hz one processor moves in steps of 10 %.
    """

    _SHARES = ("cpu_util_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct")

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "stat")
        self._last: tuple[int, ...] = ()
        self._cores: dict[str, tuple[int, ...]] = {}
        self._switches = 0
        self._at_ns = 0
        self.cores: Values = {}

    def open(self) -> Sequence[str]:
        """Open /proc/stat and take the first reading."""
        self._file.open()
        self.read(time.monotonic_ns())
        return (*self._SHARES, "context_switches_per_s", "procs_running")

    def core_metrics(self) -> Sequence[str]:
        """Return the names that `cores` will have."""
        return tuple(f"core{number}_util_pct" for number in self._cores)

    def read(self, now_ns: int) -> Values:
        """Read all processors; `cores` then has the busy share of each."""
        values: Values = {}
        self.cores = {}
        for line in self._file.read().splitlines():
            if line.startswith(b"cpu "):
                fields = tuple(map(int, line.split()[1:9]))
                values.update(_shares(self._last, fields))
                self._last = fields
            elif line.startswith(b"cpu"):
                name, *counts = line.split()
                core, fields = name[3:].decode(), tuple(map(int, counts[:8]))
                before = self._cores.get(core, ())
                if self._at_ns and not before:
                    continue  # brought online since: it has no column
                self._cores[core] = fields
                share = _shares(before, fields)
                if share:
                    self.cores[f"core{core}_util_pct"] = share["cpu_util_pct"]
            elif line.startswith(b"ctxt"):
                switches = int(line.split()[1])
                if self._at_ns:
                    rate = (switches - self._switches) / (now_ns - self._at_ns) * 1e9
                    values["context_switches_per_s"] = round(rate, 1)
                self._switches = switches
            elif line.startswith(b"procs_running"):
                values["procs_running"] = int(line.split()[1])
        self._at_ns = now_ns
        return values

    def close(self) -> None:
        """Close /proc/stat."""
        self._file.close()


def _shares(before: tuple[int, ...], after: tuple[int, ...]) -> Values:
    total = sum(after) - sum(before)
    if not before or total <= 0:
        return {}
    # A counter may run backwards by a tick (iowait, and idle on a processor that was offline).
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

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "meminfo")

    def open(self) -> Sequence[str]:
        """Open /proc/meminfo."""
        self._file.open()
        return tuple(self.read(0))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        kib = {line.split(None, 2)[0]: int(line.split(None, 2)[1]) for line in self._file.read().splitlines()}
        return {
            "mem_used_bytes": (kib[b"MemTotal:"] - kib[b"MemAvailable:"]) * 1024,
            "mem_available_bytes": kib[b"MemAvailable:"] * 1024,
            "mem_cached_bytes": sum(kib[key] for key in _PAGE_CACHE) * 1024,
            "swap_used_bytes": (kib[b"SwapTotal:"] - kib[b"SwapFree:"]) * 1024,
        }

    def close(self) -> None:
        """Close it."""
        self._file.close()


class Load:
    """/proc/loadavg."""

    def __init__(self, proc: Path) -> None:
        self._file = ProcFile(proc / "loadavg")

    def open(self) -> Sequence[str]:
        """Open /proc/loadavg."""
        self._file.open()
        return tuple(self.read(0))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        return {"load1": float(self._file.read().split(None, 1)[0])}

    def close(self) -> None:
        """Close it."""
        self._file.close()


class Rates:
    """Two cumulative counters summed over some of a file's lines, as rates.

    Args:
        path: the file.
        names: finds out which disks or interfaces count; the others would count traffic twice.
        parse: line -> (name, first counter, second counter).
        metrics: the two rates' names.
    """

    def __init__(
        self,
        path: Path,
        names: Callable[[], frozenset[bytes]],
        parse: Callable[[bytes], tuple[bytes, int, int]],
        metrics: tuple[str, str],
    ) -> None:
        self._file = ProcFile(path)
        self._find = names
        self._parse = parse
        self._metrics = metrics
        self._names: frozenset[bytes] = frozenset()
        self._last = (0, 0)
        self._at_ns = 0

    def open(self) -> Sequence[str]:
        """Open the file and take the first reading."""
        self._names = self._find()
        self._file.open()
        self.read(time.monotonic_ns())
        return self._metrics

    def read(self, now_ns: int) -> Values:
        """Read it."""
        first = second = 0
        for line in self._file.read().splitlines():
            name, one, two = self._parse(line)
            if name in self._names:
                first += one
                second += two
        elapsed_s = (now_ns - self._at_ns) / 1e9
        before, self._last = self._last, (first, second)
        first_time, self._at_ns = self._at_ns == 0, now_ns
        # Counters fall when a disk or interface goes away: no rate then.
        if first_time or elapsed_s <= 0 or first < before[0] or second < before[1]:
            return {}
        rates = ((first - before[0]) / elapsed_s, (second - before[1]) / elapsed_s)
        return dict(zip(self._metrics, (round(rate) for rate in rates), strict=True))

    def close(self) -> None:
        """Close it."""
        self._file.close()


def disks(proc: Path, sys: Path) -> Rates:
    """Give the rates of whole disks: not partitions, nor what is layered over them, nor what is in memory."""

    def names() -> frozenset[bytes]:
        virtual = ("loop", "ram", "zram", "dm-", "md", "sr")
        return frozenset(
            each.name.encode() for each in (sys / "block").iterdir() if not each.name.startswith(virtual)
        )

    def parse(line: bytes) -> tuple[bytes, int, int]:
        fields = line.split()
        return fields[2], int(fields[5]) * _SECTOR_BYTES, int(fields[9]) * _SECTOR_BYTES

    return Rates(proc / "diskstats", names, parse, ("disk_read_bytes_per_s", "disk_write_bytes_per_s"))


def interfaces(proc: Path, sys: Path) -> Rates:
    """Give the rates of interfaces with hardware behind them; bridges and containers' ends only repeat it."""

    def names() -> frozenset[bytes]:
        all_ = tuple((sys / "class/net").iterdir())
        real = [each for each in all_ if (each / "device").exists()]
        return frozenset(each.name.encode() for each in real or all_ if each.name != "lo")

    def parse(line: bytes) -> tuple[bytes, int, int]:
        name, colon, counters = line.partition(b":")
        fields = counters.split()
        return (name.strip(), int(fields[0]), int(fields[8])) if colon else (b"", 0, 0)

    # Not /proc/net, which is a link into the namespace of whoever reads it through "self".
    return Rates(proc / "self/net/dev", names, parse, ("net_recv_bytes_per_s", "net_sent_bytes_per_s"))


class Pressure:
    """One file of /proc/pressure or of a cgroup: cumulative seconds of stall.

    Args:
        path: the file.
        resource: "cpu", "mem" or "io", as in the metrics' names.
    """

    def __init__(self, path: Path, resource: str) -> None:
        self._file = ProcFile(path)
        self._resource = resource

    def open(self) -> Sequence[str]:
        """Open it."""
        self._file.open()
        return tuple(self.read(0))

    def read(self, now_ns: int) -> Values:
        """Read it."""
        stalls = pressure(self._file.read())
        return {f"{self._resource}_pressure_{share}_s": seconds for share, seconds in stalls.items()}

    def close(self) -> None:
        """Close it."""
        self._file.close()
