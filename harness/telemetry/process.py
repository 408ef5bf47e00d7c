"""The source "process": a process tree, for trials without a cgroup of their own."""

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
# Children are found late without loss: their times are cumulative, and added to the parent's when they end.
_LOOK_NS = 1_000_000_000


class ProcessSource:
    """CPU time, memory, I/O and threads of a process and its descendants, unless it has a cgroup of its own.

    A cgroup also counts processes that come and go between two reads.
    """

    name = "process"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._tree: tuple[psutil.Process, ...] = ()
        self._look_ns = 0

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the process, unless its cgroup is its own."""
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
        """Sum over the tree, which is updated once a second because that scans all of /proc."""
        now_ns = time.monotonic_ns()
        if self._tree and now_ns >= self._look_ns:
            with suppress(psutil.Error):
                self._tree = (self._tree[0], *self._tree[0].children(recursive=True))
            self._look_ns = now_ns + _LOOK_NS
        rows = [row for process in self._tree if (row := _use(process))]
        if rows:
            totals = (sum(column) for column in zip(*rows, strict=True))
            values = dict(zip(_METRICS, totals, strict=True))
            yield Sample(t_ns=now_ns, device=CONTAINER, values=values)

    def stop(self) -> None:
        """Forget the processes."""
        self._tree = ()


def _use(process: psutil.Process) -> tuple[float, ...]:
    """Return the values of the metrics, () when the process has ended."""
    try:
        with process.oneshot():
            cpu, io = process.cpu_times(), process.io_counters()
            # A child's time moves to its parent when it is waited for: the sum never decreases.
            user_s, system_s = cpu.user + cpu.children_user, cpu.system + cpu.children_system
            use = (user_s + system_s, user_s, system_s, process.memory_info().rss, process.num_threads())
            return (*use, io.read_bytes, io.write_bytes, io.read_count, io.write_count)
    except psutil.Error:
        return ()
