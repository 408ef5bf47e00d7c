"""The host's disks and network, as rates out of cumulative counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from harness.telemetry.procfile import ProcFile
from harness.telemetry.procfs import Values


class Rates:
    """Two cumulative counters summed over some of a file's lines, as rates.

    Args:
        path: the file.
        names: finds out which disks or interfaces count; the others would count traffic twice.
        line: regular expression with NAMES where the names go, and a group for each counter.
        metrics: the two rates' names.
        scale: bytes in a counter's unit.
    """

    def __init__(
        self,
        path: Path,
        names: Callable[[], Collection[str]],
        line: str,
        metrics: tuple[str, str],
        scale: int = 1,
    ) -> None:
        self._file = ProcFile(path)
        self._names = names
        self._line = line
        self._metrics = metrics
        self._scale = scale
        self._pattern = re.compile(b"")
        self._last = (0, 0)
        self._at_ns = 0

    def open(self, now_ns: int) -> Sequence[str]:
        """Open the file and take the first reading.

        Raises:
            OSError: there is no such file, or nothing in it that counts.
        """
        names = self._names()
        if not names:
            raise FileNotFoundError("nothing physical is listed")
        either = "|".join(map(re.escape, names))
        self._pattern = re.compile(self._line.replace("NAMES", either).encode(), re.MULTILINE)
        self._file.open()
        self.read(now_ns)
        return self._metrics

    def read(self, now_ns: int) -> Values:
        """Read it."""
        rows = self._pattern.findall(self._file.read())
        totals = (sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))
        before, self._last = self._last, totals
        since_ns, self._at_ns = self._at_ns, now_ns
        # Counters fall when a disk or interface goes away: no rate then.
        if not since_ns or now_ns <= since_ns or totals[0] < before[0] or totals[1] < before[1]:
            return {}
        per_s = self._scale * 1e9 / (now_ns - since_ns)
        return {
            metric: round((total - old) * per_s)
            for metric, total, old in zip(self._metrics, totals, before, strict=True)
        }

    def close(self) -> None:
        """Close it."""
        self._file.close()


def disks(proc: Path, sys: Path) -> Rates:
    """Give the rates of whole disks: not partitions, nor what is layered over them, nor what is in memory."""

    def names() -> Collection[str]:
        virtual = ("loop", "ram", "zram", "dm-", "md", "sr")
        return [each.name for each in (sys / "block").iterdir() if not each.name.startswith(virtual)]

    return Rates(
        proc / "diskstats",
        names,
        r"^ *\d+ +\d+ (?:NAMES) \d+ \d+ (\d+) \d+ \d+ \d+ (\d+)",
        ("disk_read_bytes_per_s", "disk_write_bytes_per_s"),
        scale=512,  # what the kernel counts there, whatever the device's own sectors are
    )


def interfaces(proc: Path, sys: Path) -> Rates:
    """Give the rates of physical interfaces together."""
    return Rates(
        proc / "self/net/dev",
        lambda: physical(sys),
        r"^ *(?:NAMES): *(\d+)(?: +\d+){7} +(\d+)",
        ("net_recv_bytes_per_s", "net_sent_bytes_per_s"),
    )


def physical(sys: Path) -> Collection[str]:
    """Return the interfaces with hardware behind them; bonds, bridges and containers' ends only repeat it.

    Where there are none, in a container, all but loopback count.

    Raises:
        OSError: the kernel lists no interfaces.
    """
    every = [each for each in (sys / "class/net").iterdir() if each.name != "lo"]
    return [each.name for each in every if (each / "device").exists()] or [each.name for each in every]
