"""Telemetry sources: each reads one thing from the host, and says so when it can't.

Adding one is a file with a class that follows Source, a line in sources.py, its metrics in
docs/telemetry.md, and those of them that are counters in metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a trial's sources watch: the container's first process on this host, and its GPUs by UUID.

    `pid` is None when the container runs on another machine; `gpus` maps the trial's device names
    ("gpu0") to NVML UUIDs (a MIG instance's own where one was chosen).
    """

    pid: int | None
    gpus: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings of one device at one instant; a metric that could not be read is absent."""

    t_ns: int
    device: str
    values: Mapping[str, float]


# (device, metric, reason); "*" for all metrics of a device, or all devices. A source may call it on every failing
# read: the sampler keeps one gap open until the metric is in a sample again.
GapSink = Callable[[str, str, str], None]


class Source(Protocol):
    """Reads one kind of telemetry. A source that is not there reports a gap; it never raises.

    Constructors only assign; `start` does the I/O. `start`, `read` and `stop` are called in one thread.
    """

    @property
    def name(self) -> str:
        """The source's name, without a hyphen: it is the first part of its files' names."""
        ...

    @property
    def interval_s(self) -> float | None:
        """Least time between two reads; None for the sampler's own rate. Slower sources get a thread of
        their own, so that a call that sleeps never holds up a tick."""
        ...

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open what is there and return the metrics that `read` can give: device -> metrics (docs/telemetry.md)."""
        ...

    def read(self) -> Iterable[Sample]:
        """Take one reading of each device; what cannot be read is left out and reported as a gap."""
        ...

    def stop(self) -> None:
        """Release every source."""
        ...
