"""Telemetry sources: each reads one kind of data from the host and reports gaps.

To add a source, write a class that implements Source, add it to `default_sources` in sampler.py, and its metrics to
harness/model/metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The process and GPUs of the trial to observe.

    Attributes:
        pid: host process id of the container's first process; None if it has already ended.
        gpus: device name in the trial ("gpu0") -> UUID of the GPU or MIG instance.
    """

    pid: int | None
    gpus: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings of a device at one time; a metric that could not be read is absent."""

    t_ns: int
    device: str
    values: Mapping[str, float]


# (device, metric, reason); "*" means all devices or metrics. May be called at every failing read: the sampler
# keeps one gap open until a sample has the metric again.
GapSink = Callable[[str, str, str], None]


class Source(Protocol):
    """Reads one kind of telemetry, in one thread, and reports gaps instead of raising."""

    @property
    def name(self) -> str:
        """The prefix of its file names, without hyphens."""
        ...

    @property
    def interval_s(self) -> float | None:
        """Seconds between reads in a separate thread; None to be read at the sampler's rate."""
        ...

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open what exists; return the metrics that `read` can provide, by device (rows of METRICS)."""
        ...

    def read(self) -> Iterable[Sample]:
        """Read each device once; omit unreadable metrics and report them as gaps."""
        ...

    def stop(self) -> None:
        """Release all resources."""
        ...
