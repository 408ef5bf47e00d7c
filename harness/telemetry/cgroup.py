"""The source "cgroup": what the trial's container uses, as the kernel accounts for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.cgroup_files import CgroupFile, files, limits
from harness.telemetry.cgroupfs import Cgroup, NoCgroupError, locate

CONTAINER = "container"


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
        self._files: list[CgroupFile] = []
        self._limits: dict[str, float] = {}
        self._pid: int | None = None
        self._gap: GapSink | None = None

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the cgroup of `target.pid`; one that the harness shares is a gap, see process.py."""
        self._gap = gap
        self._pid = target.pid
        try:
            cgroup: Cgroup = locate(self._root, target.pid)
        except NoCgroupError as error:
            gap(self.name, CONTAINER, "*", str(error))
            return {}
        metrics: list[str] = []
        for each in files(cgroup, _layered(self._root)):
            try:
                each.file.open()
                found = each.parse(each.file.read())
            except (OSError, ValueError, LookupError) as error:
                each.file.close()
                reason = each.missing if isinstance(error, FileNotFoundError) else f"{each.missing} ({error})"
                for metric in each.metrics:
                    gap(self.name, CONTAINER, metric, reason)
                continue
            self._files.append(each)
            metrics += found
            for metric in each.metrics:
                if metric not in found:
                    gap(self.name, CONTAINER, metric, "The controller is not enabled for this cgroup.")
        self._limits = limits(cgroup)
        return {CONTAINER: (*metrics, *self._limits)}

    def read(self) -> Iterable[Sample]:
        """Read every file once."""
        now_ns = self._now_ns()
        values: dict[str, float] = {}
        for each in self._files:
            try:
                values |= each.parse(each.file.read())
            except (OSError, ValueError, LookupError) as error:
                # A cgroup that went away with its process is the trial's end, not missing telemetry.
                if self._gap and (self._root / f"proc/{self._pid}").exists():
                    for metric in each.metrics:
                        self._gap(self.name, CONTAINER, metric, f"The cgroup cannot be read: {error}.")
        if values:
            yield Sample(t_ns=now_ns, source=self.name, device=CONTAINER, values=values | self._limits)

    def stop(self) -> None:
        """Close the files."""
        for each in self._files:
            each.file.close()
        self._files = []


def _layered(root: Path) -> frozenset[bytes]:
    """Return the numbers of block devices that only pass requests on to others."""
    found = set()
    for pattern in ("dm-*", "md*", "loop*"):
        for file in (root / "sys/block").glob(f"{pattern}/dev"):
            found.add(file.read_bytes().strip())
    return frozenset(found)
