"""Telemetry sources: each reads one thing from the host and reports what it cannot read.

A new one is a class that follows Source in a file of its own, a line in sources.py, its metrics in
docs/telemetry.md, and its counters in metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a trial's sources watch.

    Attributes:
        pid: host process id of the container's first process; None if it ended at once.
        gpus: the trial's device names ("gpu0") -> UUIDs of GPUs or MIG instances.
    """

    pid: int | None
    gpus: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings of a device at one time; a metric that could not be read is absent."""

    t_ns: int
    device: str
    values: Mapping[str, float]


# (device, metric, reason); "*" for all devices or metrics. May be called at each failing read: the sampler
# keeps one gap open until the metric is in a sample again.
GapSink = Callable[[str, str, str], None]


class Source(Protocol):
    """Reads one kind of telemetry, in one thread, and reports gaps instead of raising."""

    @property
    def name(self) -> str:
        """The first part of its files' names, without a hyphen."""
        ...

    @property
    def interval_s(self) -> float | None:
        """Time between reads, in a thread of its own; None for the sampler's rate."""
        ...

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open what there is and return what `read` can provide: device -> metrics (docs/telemetry.md)."""
        ...

    def read(self) -> Iterable[Sample]:
        """Read each device once; what cannot be read is left out and reported as a gap."""
        ...

    def stop(self) -> None:
        """Release every source."""
        ...
