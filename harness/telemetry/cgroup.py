"""The source "cgroup": what the trial's container uses, as the kernel accounts for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.cgroup_location import UNIFIED, Cgroup, NoCgroupError, locate
from harness.telemetry.kernel_files import FileReader, Parse, Reading, Values, pressure, table

CONTAINER = "container"
# Version 1 says "no limit" with the largest multiple of the page size.
_NO_LIMIT = 1 << 62
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_OLD_PEAK = "This kernel keeps no high-water mark of a cgroup (Linux 5.19 does)."
_NO_PRESSURE = "This kernel does not account for pressure in this cgroup."
_NO_IO = "The controller is not enabled for this cgroup."

_IO = ("io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops")
_THROTTLING = ("cpu_periods", "cpu_throttled_periods", "cpu_throttled_s")


class CgroupSource:
    """CPU time, throttling, memory, I/O, tasks and pressure of one cgroup, version 1 or 2.

    Args:
        root: where /proc and the cgroup mounts are, for tests.
        now_ns: the clock.
    """

    name = "cgroup"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._now_ns = now_ns
        self._reader: FileReader | None = None
        self._limits: dict[str, float] = {}

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the cgroup of `target.pid`; one that the harness shares is a gap, see process.py."""

        def unless_ended(source: str, device: str, metric: str, reason: str) -> None:
            # A cgroup that went away with its process is the trial's end, not missing telemetry.
            if (self._root / f"proc/{target.pid}").exists():
                gap(source, device, metric, reason)

        try:
            cgroup = locate(self._root, target.pid)
        except NoCgroupError as error:
            gap(self.name, CONTAINER, "*", str(error))
            return {}
        self._reader = FileReader(self.name, CONTAINER, unless_ended)
        metrics = self._reader.open(_readings(cgroup, _layered(self._root)), self._now_ns())
        self._limits = _limits(cgroup)
        return {CONTAINER: (*metrics, *self._limits)}

    def read(self) -> Iterable[Sample]:
        """Read every file once."""
        if self._reader is not None:
            now_ns = self._now_ns()
            values = self._reader.read(now_ns)
            if values:
                yield Sample(t_ns=now_ns, source=self.name, device=CONTAINER, values=values | self._limits)

    def stop(self) -> None:
        """Close the files."""
        if self._reader is not None:
            self._reader.close()


def _layered(root: Path) -> frozenset[bytes]:
    """Return the numbers of block devices that only pass requests on: they are counted for the disk beneath."""
    patterns = ("dm-*/dev", "md*/dev", "loop*/dev")
    return frozenset(
        file.read_bytes().strip() for pattern in patterns for file in (root / "sys/block").glob(pattern)
    )


def _readings(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[Reading, ...]:
    unified = _Controller(cgroup.folders.get(UNIFIED))
    own = _version_1(cgroup, layered) if cgroup.version == 1 else _version_2(unified, layered)
    stalls = (
        pressure(unified.path(f"{name}.pressure"), short, ("some", "full"), _NO_PRESSURE)
        for name, short in (("cpu", "cpu"), ("memory", "mem"), ("io", "io"))
    )
    return (*own, *stalls)


@dataclass(frozen=True, slots=True)
class _Controller:
    """The folder of a controller; one that is not mounted is a folder that does not exist."""

    folder: Path | None

    def path(self, name: str) -> Path:
        return (self.folder or Path("/nonexistent")) / name

    def file(self, name: str, metrics: tuple[str, ...], parse: Parse, missing: str = "") -> Reading:
        missing = missing or f"The cgroup has no {name}."
        return Reading(path=self.path(name), metrics=metrics, parse=parse, missing=missing)

    def number(self, name: str, metric: str, scale: float = 1, missing: str = "") -> Reading:
        return self.file(name, (metric,), lambda content, _: {metric: int(content) * scale}, missing)

    def columns(self, name: str, columns: Mapping[str, tuple[bytes, float]]) -> Reading:
        """Read lines of "key value": metric -> key and scale; keys that are absent are left out."""

        def parse(content: bytes, now_ns: int) -> Values:
            result = table(content)
            return {metric: result[key] * by for metric, (key, by) in columns.items() if key in result}

        return self.file(name, tuple(columns), parse)


def _version_2(folder: _Controller, layered: frozenset[bytes]) -> tuple[Reading, ...]:
    def io(content: bytes, now_ns: int) -> Values:
        totals = dict.fromkeys((b"rbytes", b"wbytes", b"rios", b"wios"), 0)
        for line in content.splitlines():
            device, *pairs = line.split()
            for key, _, value in (pair.partition(b"=") for pair in pairs):
                if device not in layered and key in totals:
                    totals[key] += int(value)
        return dict(zip(_IO, totals.values(), strict=True))

    cpu = {
        "cpu_usage_s": (b"usage_usec", 1e-6),
        "cpu_user_s": (b"user_usec", 1e-6),
        "cpu_system_s": (b"system_usec", 1e-6),
        "cpu_periods": (b"nr_periods", 1),
        "cpu_throttled_periods": (b"nr_throttled", 1),
        "cpu_throttled_s": (b"throttled_usec", 1e-6),
    }
    return (
        folder.columns("cpu.stat", cpu),
        folder.number("memory.current", "mem_used_bytes"),
        folder.number("memory.peak", "mem_peak_bytes", missing=_OLD_PEAK),
        folder.columns("memory.stat", {"mem_anon_bytes": (b"anon", 1), "mem_file_bytes": (b"file", 1)}),
        folder.file("io.stat", _IO, io, _NO_IO),
        folder.number("pids.current", "pids"),
    )


def _version_1(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[Reading, ...]:
    def folder(controller: str) -> _Controller:
        return _Controller(cgroup.folders.get(controller))

    def requests(metrics: tuple[str, ...]) -> Parse:
        def parse(content: bytes, now_ns: int) -> Values:
            totals: Values = dict.fromkeys(metrics, 0)
            names = dict(zip((b"Read", b"Write"), metrics, strict=True))
            for row in (line.split() for line in content.splitlines()):
                if len(row) == 3 and row[1] in names and row[0] not in layered:
                    totals[names[row[1]]] += int(row[2])
            return totals

        return parse

    shares = {"cpu_user_s": (b"user", 1 / _TICKS_PER_S), "cpu_system_s": (b"system", 1 / _TICKS_PER_S)}
    keys = ((b"nr_periods", 1), (b"nr_throttled", 1), (b"throttled_time", 1e-9))
    memory = {"mem_anon_bytes": (b"total_rss", 1), "mem_file_bytes": (b"total_cache", 1)}
    return (
        folder("cpuacct").number("cpuacct.usage", "cpu_usage_s", 1e-9),
        folder("cpuacct").columns("cpuacct.stat", shares),
        folder("cpu").columns("cpu.stat", dict(zip(_THROTTLING, keys, strict=True))),
        folder("memory").number("memory.usage_in_bytes", "mem_used_bytes"),
        folder("memory").number("memory.max_usage_in_bytes", "mem_peak_bytes"),
        folder("memory").columns("memory.stat", memory),
        folder("blkio").file("blkio.throttle.io_service_bytes_recursive", _IO[:2], requests(_IO[:2])),
        folder("blkio").file("blkio.throttle.io_serviced_recursive", _IO[2:], requests(_IO[2:])),
        folder("pids").number("pids.current", "pids"),
    )


def _limits(cgroup: Cgroup) -> dict[str, float]:
    """Return the limits that are set, as metric -> value; what has none is absent."""

    def text(controller: str, name: str) -> str:
        path = cgroup.folders.get(UNIFIED if cgroup.version == 2 else controller)
        try:
            return (path / name).read_text(encoding="ascii").strip() if path else ""
        except OSError:
            return ""

    if cgroup.version == 2:
        quota, _, period = text("", "cpu.max").partition(" ")
        memory, pids = text("", "memory.max"), text("", "pids.max")
    else:
        quota, period = text("cpu", "cpu.cfs_quota_us"), text("cpu", "cpu.cfs_period_us")
        memory, pids = text("memory", "memory.limit_in_bytes"), text("pids", "pids.max")
    result: dict[str, float] = {}
    if quota.isdigit() and period.isdigit():
        result["cpu_limit_cpus"] = int(quota) / int(period)
    for metric, value in (("mem_limit_bytes", memory), ("pids_limit", pids)):
        if value.isdigit() and int(value) < _NO_LIMIT:
            result[metric] = int(value)
    return result
