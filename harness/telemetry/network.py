"""The source "network": bytes through each physical network interface, and loopback.

For training over several machines, where gradients travel: the source "host" leaves loopback out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.host import physical

_METRICS = ("net_recv_bytes", "net_sent_bytes")


class NetworkSource:
    """Cumulative bytes of every physical interface and loopback; one that appears later is not read.

    Args:
        counters: as psutil.net_io_counters(pernic=True).
        now_ns: the clock.
        sys: where sysfs is.
    """

    name = "network"
    interval_s: float | None = None

    def __init__(
        self,
        counters: Callable[[], Mapping[str, Any]] = lambda: psutil.net_io_counters(pernic=True),
        now_ns: Callable[[], int] = time.monotonic_ns,
        sys: Path = Path("/sys"),
    ) -> None:
        self._counters = counters
        self._now_ns = now_ns
        self._sys = sys
        self._interfaces: tuple[str, ...] = ()
        self._gap: GapSink | None = None

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the interfaces."""
        self._gap = gap
        counted = {"lo", *physical(self._sys)}
        self._interfaces = tuple(name for name in self._counters() if name in counted)
        return dict.fromkeys(self._interfaces, _METRICS)

    def read(self) -> Iterable[Sample]:
        """Read each of their counters once."""
        now_ns = self._now_ns()
        result = self._counters()
        for name in self._interfaces:
            if name in result:
                values = {
                    "net_recv_bytes": result[name].bytes_recv,
                    "net_sent_bytes": result[name].bytes_sent,
                }
                yield Sample(t_ns=now_ns, source=self.name, device=name, values=values)
            elif self._gap is not None:
                self._gap(self.name, name, "*", "The interface is gone.")

    def stop(self) -> None:
        """Nothing is held."""
