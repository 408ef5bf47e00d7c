"""The source "process": a process tree's use, for engines that give a trial no cgroup of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.cgroup import CONTAINER
from harness.telemetry.cgroupfs import NoCgroupError, locate
from harness.telemetry.procfile import ProcFile

_USE = ("cpu_usage_s", "cpu_user_s", "cpu_system_s", "mem_rss_bytes", "pids")
_IO = ("io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops")
_IO_LINES = (b"read_bytes:", b"write_bytes:", b"syscr:", b"syscw:")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A child that is found late has lost nothing: its times are cumulative, and its parent's when it has ended.
_FIRST_LOOK_NS, _LAST_LOOK_NS = 100_000_000, 5_000_000_000
_ONLY_CGROUP = (
    "cpu_throttled_s",
    "mem_peak_bytes",
    "mem_anon_bytes",
    "mem_file_bytes",
    "cpu_pressure_some_s",
    "mem_pressure_some_s",
    "io_pressure_some_s",
)


class _Process:
    """One process by two files of /proc, a quarter of what psutil's calls for the same cost.

    Its open files stay its own even if another process gets its number.
    """

    def __init__(self, proc: Path, with_io: bool) -> None:
        self._stat = ProcFile(proc / "stat")
        self._io = ProcFile(proc / "io") if with_io else None

    def open(self) -> None:
        """Open both.

        Raises:
            OSError: it has ended, or its I/O is another user's.
        """
        try:
            self._stat.open()
            if self._io:
                self._io.open()
                self._io.read()
        except OSError:
            self.close()
            raise

    def read(self) -> tuple[float, ...]:
        """Return the values of _USE and, if asked for, _IO.

        Raises:
            OSError: it has ended.
        """
        # The command may hold spaces and brackets; after its closing one come numbers only.
        fields = self._stat.read().rpartition(b")")[2].split()
        user, system, children_user, children_system = (int(field) / _TICKS_PER_S for field in fields[11:15])
        # A child's time moves to its parent when it is waited for, so that the sum never falls.
        user_s, system_s = user + children_user, system + children_system
        use = (user_s + system_s, user_s, system_s, int(fields[21]) * _PAGE_BYTES, int(fields[17]))
        if self._io is None:
            return use
        rows = dict(line.split() for line in self._io.read().splitlines())
        return (*use, *(int(rows[name]) for name in _IO_LINES))

    def close(self) -> None:
        self._stat.close()
        if self._io:
            self._io.close()


class ProcessSource:
    """CPU time, memory, I/O and threads, summed over a process and its descendants.

    Nothing when the process has a cgroup of its own: that one is exact, and also has processes that
    came and went between two reads.

    Args:
        root: where /proc and the cgroup mounts are, for tests.
        now_ns: the clock.
    """

    name = "process"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._now_ns = now_ns
        self._first: psutil.Process | None = None
        self._tree: dict[int, _Process] = {}
        self._metrics: tuple[str, ...] = _USE
        self._look_ns = self._pause_ns = 0

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the process, unless its cgroup is its own."""
        if target.pid is None:
            return {}
        try:
            locate(self._root, target.pid)
        except NoCgroupError:
            pass
        else:
            return {}
        try:
            self._first = psutil.Process(target.pid)
        except psutil.Error:
            gap(self.name, CONTAINER, "*", f"Process {target.pid} has ended.")
            return {}
        for metric in _ONLY_CGROUP:
            gap(
                self.name,
                CONTAINER,
                metric,
                "Only a cgroup of its own shows this, and this engine gives none.",
            )
        self._metrics = (*_USE, *_IO)
        try:
            self._add(target.pid)
        except PermissionError:
            self._metrics = _USE
            for metric in _IO:
                gap(self.name, CONTAINER, metric, "The process belongs to another user.")
        except OSError:
            pass
        self._look_ns, self._pause_ns = 0, _FIRST_LOOK_NS
        return {CONTAINER: self._metrics}

    def read(self) -> Iterable[Sample]:
        """Sum over the tree, which is looked up anew now and then: that takes a scan of all of /proc."""
        if self._first is None:
            return
        now_ns = self._now_ns()
        if now_ns >= self._look_ns:
            self._look(self._first)
            self._look_ns = now_ns + self._pause_ns
            self._pause_ns = min(2 * self._pause_ns, _LAST_LOOK_NS)
        rows = []
        for pid, process in tuple(self._tree.items()):
            try:
                rows.append(process.read())
            except OSError:
                self._tree.pop(pid).close()
        if rows:
            totals = (sum(column) for column in zip(*rows, strict=True))
            values = dict(zip(self._metrics, totals, strict=True))
            yield Sample(t_ns=now_ns, source=self.name, device=CONTAINER, values=values)

    def _look(self, first: psutil.Process) -> None:
        try:
            pids = (first.pid, *(child.pid for child in first.children(recursive=True)))
        except psutil.Error:
            return
        for pid in pids:
            if pid not in self._tree:
                try:
                    self._add(pid)
                except OSError:
                    continue

    def _add(self, pid: int) -> None:
        process = _Process(Path(f"/proc/{pid}"), with_io=self._metrics != _USE)
        process.open()
        self._tree[pid] = process

    def stop(self) -> None:
        """Close the files."""
        for process in self._tree.values():
            process.close()
        self._tree = {}
        self._first = None
