"""The source "process": metrics of a process tree, for trials without their own cgroup."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from harness.cgroups import NoCgroupError, locate
from harness.telemetry import GapSink, Sample, Target
from harness.telemetry.cgroup import CONTAINER

_METRICS = (
    "cpu_usage_s", "cpu_user_s", "cpu_system_s", "mem_rss_bytes", "pids",
    "io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops",
)  # fmt: skip
# Interval of scans for new children. CPU time is not lost in between: it is cumulative, and is added to the
# parent's when a child ends.
_SCAN_NS = 1_000_000_000


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
            self._next_scan_ns = now_ns + _SCAN_NS
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
