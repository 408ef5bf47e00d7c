"""The sources of the device "container": "cgroup", and "process" for trials without their own cgroup."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from harness.cgroups import UNIFIED, Cgroup, NoCgroupError, limits, locate
from harness.telemetry import GapSink, Sample, Target
from harness.telemetry.kernel_files import FileReading, FileSource, Parse, Values, pressure, table

CONTAINER = "container"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_NO_PEAK = "This kernel does not record peak memory per cgroup; Linux 5.19 and newer do."
_NO_PRESSURE = "This kernel provides no pressure information for this cgroup."
_NO_IO = "The io controller is not enabled for this cgroup."

_IO = ("io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops")
_THROTTLING = ("cpu_periods", "cpu_throttled_periods", "cpu_throttled_s")
_METRICS = ("cpu_usage_s", "cpu_user_s", "cpu_system_s", "mem_rss_bytes", "pids", *_IO)


class CgroupSource(FileSource):
    """CPU time, throttling, memory, I/O, tasks and pressure of one cgroup, version 1 or 2."""

    name = "cgroup"

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the cgroup of `target.pid`, unless the harness shares it (ProcessSource handles that case)."""

        def gap_if_running(device: str, metric: str, reason: str) -> None:
            # The cgroup disappears with its process; this is not a gap.
            if (self._root / f"proc/{target.pid}").exists():
                gap(device, metric, reason)

        try:
            self._cgroup = locate(self._root, target.pid)
        except NoCgroupError as error:
            gap(CONTAINER, "*", str(error))
            return {}
        self._limits = limits(self._cgroup)
        columns = super().start(target, gap_if_running)
        return {CONTAINER: (*columns[CONTAINER], *self._limits)}

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[FileReading]]:
        """Return the files of the cgroup."""
        cgroup, layered = self._cgroup, _layered(self._root)
        usage = _version_1(cgroup, layered) if cgroup.version == 1 else _version_2(cgroup, layered)
        unified = cgroup.folders.get(UNIFIED, Path("/nonexistent"))
        pressures = (
            pressure(unified / f"{name}.pressure", short, ("some", "full"), _NO_PRESSURE)
            for name, short in (("cpu", "cpu"), ("memory", "mem"), ("io", "io"))
        )
        return {CONTAINER: (*usage, *pressures)}

    def read(self) -> Iterable[Sample]:
        """Read every file once and add the limits, which were read at the start."""
        for sample in super().read():
            yield replace(sample, values={**sample.values, **self._limits})


def _layered(root: Path) -> frozenset[bytes]:
    """Return the device numbers of layered block devices, whose traffic also appears on the disk below."""
    patterns = ("dm-*/dev", "md*/dev", "loop*/dev")
    return frozenset(
        file.read_bytes().strip() for pattern in patterns for file in (root / "sys/block").glob(pattern)
    )


def _reading(path: Path, metrics: tuple[str, ...], parse: Parse, missing: str = "") -> FileReading:
    return FileReading(
        path=path, metrics=metrics, parse=parse, missing=missing or f"The cgroup has no {path.name}."
    )


def _number(path: Path, metric: str, scale: float = 1, missing: str = "") -> FileReading:
    return _reading(path, (metric,), lambda content: {metric: int(content) * scale}, missing)


def _columns(path: Path, columns: Mapping[str, tuple[bytes, float]]) -> FileReading:
    """Read lines of "key value"; `columns` maps each metric to its key and scale."""

    def parse(content: bytes) -> Values:
        result = table(content)
        return {metric: result[key] * by for metric, (key, by) in columns.items() if key in result}

    return _reading(path, tuple(columns), parse)


def _version_2(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[FileReading, ...]:
    def io(content: bytes) -> Values:
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
    memory = {"mem_anon_bytes": (b"anon", 1), "mem_file_bytes": (b"file", 1)}
    folder = cgroup.folders[UNIFIED]
    return (
        _columns(folder / "cpu.stat", cpu),
        _number(folder / "memory.current", "mem_used_bytes"),
        _number(folder / "memory.peak", "mem_peak_bytes", missing=_NO_PEAK),
        _columns(folder / "memory.stat", memory),
        _reading(folder / "io.stat", _IO, io, _NO_IO),
        _number(folder / "pids.current", "pids"),
    )


def _version_1(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[FileReading, ...]:
    def requests(metrics: tuple[str, ...]) -> Parse:
        def parse(content: bytes) -> Values:
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
    file = cgroup.file
    return (
        _number(file("cpuacct", "cpuacct.usage"), "cpu_usage_s", 1e-9),
        _columns(file("cpuacct", "cpuacct.stat"), shares),
        _columns(file("cpu", "cpu.stat"), dict(zip(_THROTTLING, keys, strict=True))),
        _number(file("memory", "memory.usage_in_bytes"), "mem_used_bytes"),
        _number(file("memory", "memory.max_usage_in_bytes"), "mem_peak_bytes"),
        _columns(file("memory", "memory.stat"), memory),
        _reading(file("blkio", "blkio.throttle.io_service_bytes_recursive"), _IO[:2], requests(_IO[:2])),
        _reading(file("blkio", "blkio.throttle.io_serviced_recursive"), _IO[2:], requests(_IO[2:])),
        _number(file("pids", "pids.current"), "pids"),
    )


class ProcessSource:
    """CPU time, memory, I/O and threads of a process and its descendants, unless it has its own cgroup.

    The cgroup is more accurate: it also counts processes that start and end between two reads.
    """

    name = "process"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._tree: tuple[psutil.Process, ...] = ()
        self._next_scan_ns = 0

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the process, unless it has its own cgroup."""
        try:
            locate(self._root, target.pid)
            return {}
        except NoCgroupError:
            pass
        if target.pid is None:
            return {}
        try:
            self._tree = (psutil.Process(target.pid),)
        except psutil.Error:
            gap(CONTAINER, "*", f"Process {target.pid} has ended.")
            return {}
        return {CONTAINER: _METRICS}

    def read(self) -> Iterable[Sample]:
        """Sum over the process tree, which is refreshed once a second because this scans all of /proc."""
        now_ns = time.monotonic_ns()
        if self._tree and now_ns >= self._next_scan_ns:
            with suppress(psutil.Error):
                self._tree = (self._tree[0], *self._tree[0].children(recursive=True))
            # Interval of scans for new children. CPU time is not lost in between: it is cumulative, and is added to the
            # parent's when a child ends.
            self._next_scan_ns = now_ns + 1_000_000_000
        rows = [row for process in self._tree if (row := _usage(process))]
        if rows:
            totals = (sum(column) for column in zip(*rows, strict=True))
            values = dict(zip(_METRICS, totals, strict=True))
            yield Sample(t_ns=now_ns, device=CONTAINER, values=values)

    def stop(self) -> None:
        """Forget the processes."""
        self._tree = ()


def _usage(process: psutil.Process) -> tuple[float, ...]:
    """Return the values of the metrics; () if the process has ended."""
    try:
        with process.oneshot():
            cpu, io = process.cpu_times(), process.io_counters()
            # The sum never decreases: when a parent waits for a child, the child's time is added to its own.
            user_s, system_s = cpu.user + cpu.children_user, cpu.system + cpu.children_system
            usage = (user_s + system_s, user_s, system_s, process.memory_info().rss, process.num_threads())
            return (*usage, io.read_bytes, io.write_bytes, io.read_count, io.write_count)
    except psutil.Error:
        return ()
