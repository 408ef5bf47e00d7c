"""The source "network": bytes through each network interface, loopback included.

For training over several machines, where gradients travel: the source "host" sums physical interfaces alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psutil

from harness.model.run import Sample
from harness.telemetry import GapSink, Target

METRICS = ("net_recv_bytes", "net_sent_bytes")


class NetworkSource:
    """Cumulative bytes of every interface; one that appears later is not read.

    Args:
        counters: as psutil.net_io_counters(pernic=True).
        now_ns: the clock.
    """

    name = "network"
    interval_s: float | None = None

    def __init__(
        self,
        counters: Callable[[], Mapping[str, Any]] = lambda: psutil.net_io_counters(pernic=True),
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._counters = counters
        self._now_ns = now_ns
        self._interfaces: tuple[str, ...] = ()
        self._gap: GapSink | None = None

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the interfaces."""
        self._gap = gap
        try:
            self._interfaces = tuple(self._counters())
        except OSError as error:
            gap(self.name, "*", "*", f"Network counters cannot be read: {error}.")
        return dict.fromkeys(self._interfaces, METRICS)

    def read(self) -> Iterable[Sample]:
        """Read every interface's counters once."""
        now_ns = self._now_ns()
        try:
            found = self._counters()
        except OSError as error:
            if self._gap is not None:
                self._gap(self.name, "*", "*", f"Network counters cannot be read: {error}.")
            return
        for name in self._interfaces:
            if name in found:
                values = {
                    "net_recv_bytes": float(found[name].bytes_recv),
                    "net_sent_bytes": float(found[name].bytes_sent),
                }
                yield Sample(t_ns=now_ns, source=self.name, device=name, values=values)
            elif self._gap is not None:
                self._gap(self.name, name, "*", "The interface is gone.")

    def stop(self) -> None:
        """Nothing is held."""
