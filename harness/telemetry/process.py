"""The source "process": a process tree's use, for engines that give a trial no cgroup of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from harness.model import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.cgroup import CONTAINER
from harness.telemetry.cgroupfs import NoCgroupError, locate

_METRICS = ("cpu_usage_s", "cpu_user_s", "cpu_system_s", "mem_rss_bytes", "pids")
_IO = ("io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops")
_TREE_NS = 1_000_000_000
_ONLY_CGROUP = (
    "cpu_throttled_s",
    "mem_peak_bytes",
    "mem_anon_bytes",
    "mem_file_bytes",
    "cpu_pressure_some_s",
    "mem_pressure_some_s",
    "io_pressure_some_s",
)


class ProcessSource:
    """Processor time, memory, I/O and threads, summed over a process and its descendants.

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
        self._tree: dict[int, psutil.Process] = {}
        self._looked_ns = 0
        self._io = False
        self._gap: GapSink | None = None

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the process, unless its cgroup is its own."""
        self._gap = gap
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
        except psutil.Error as error:
            gap(self.name, CONTAINER, "*", f"The process has ended: {error}.")
            return {}
        for metric in _ONLY_CGROUP:
            gap(
                self.name,
                CONTAINER,
                metric,
                "Only a cgroup of its own shows this, and this engine gives none.",
            )
        try:
            self._first.io_counters()
            self._io = True
        except psutil.AccessDenied:
            for metric in _IO:
                gap(self.name, CONTAINER, metric, "The process belongs to another user.")
        except psutil.NoSuchProcess:
            pass
        return {CONTAINER: (*_METRICS, *(_IO if self._io else ()))}

    def read(self) -> Iterable[Sample]:
        """Sum over the tree, which is looked up anew once a second: that takes a scan of all of /proc."""
        if self._first is None:
            return
        now_ns = self._now_ns()
        if now_ns - self._looked_ns >= _TREE_NS:
            self._look(now_ns)
        totals = dict.fromkeys((*_METRICS, *(_IO if self._io else ())), 0.0)
        seen = False
        for process in tuple(self._tree.values()):
            try:
                self._add(process, totals)
                seen = True
            except psutil.Error:
                self._tree.pop(process.pid, None)
        if seen:
            yield Sample(t_ns=now_ns, source=self.name, device=CONTAINER, values=totals)

    def _look(self, now_ns: int) -> None:
        self._looked_ns = now_ns
        if self._first is None:
            return
        try:
            found = (self._first, *self._first.children(recursive=True))
        except psutil.Error:
            return
        self._tree = {each.pid: self._tree.get(each.pid, each) for each in found}

    def _add(self, process: psutil.Process, totals: dict[str, float]) -> None:
        with process.oneshot():
            times = process.cpu_times()
            memory = process.memory_info()
            threads = process.num_threads()
        # A child's time moves to its parent when it is waited for, so that the sum never falls.
        user_s, system_s = times.user + times.children_user, times.system + times.children_system
        totals["cpu_usage_s"] += user_s + system_s
        totals["cpu_user_s"] += user_s
        totals["cpu_system_s"] += system_s
        totals["mem_rss_bytes"] += memory.rss
        totals["pids"] += threads
        if self._io:
            io = process.io_counters()
            for metric, value in zip(
                _IO, (io.read_bytes, io.write_bytes, io.read_count, io.write_count), strict=True
            ):
                totals[metric] += value

    def stop(self) -> None:
        """Forget the tree."""
        self._first = None
        self._tree = {}
