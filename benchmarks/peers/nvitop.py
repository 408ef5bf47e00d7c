"""nvitop by its Python API: what a script that logs a GPU would read, at our rate."""

from __future__ import annotations

import importlib
import math
import time
from typing import Any

from benchmarks.peers.answering import Loop, Point, Seen, Watch, serve, summed


class Nvitop:
    """Read utilisation, memory, power, temperature and clocks of one GPU in a loop."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._device: Any = None
        self._loop: Loop | None = None
        self._start_ns = self._end_ns = 0

    def load(self) -> None:
        """Import it and open the GPU."""
        self._device = importlib.import_module("nvitop").Device(self._watch.gpu)

    def on(self) -> None:
        """Start the loop."""
        self._loop = Loop(self._read, self._watch.rate_hz)
        self._loop.start()

    def begin(self) -> None:
        """Take note of the time."""
        self._start_ns = time.monotonic_ns()

    def end(self) -> None:
        """Take note of the time."""
        self._end_ns = time.monotonic_ns()

    def off(self) -> Seen:
        """Stop; energy is its power integrated."""
        assert self._loop is not None
        self._loop.stop()
        points = [p for p in self._loop.points if math.isfinite(p.power_w)]
        return summed(points, self._start_ns, self._end_ns)

    def _read(self) -> Point:
        t_ns = time.monotonic_ns()
        device = self._device
        utilisation = device.utilization_rates()
        device.memory_info()
        power_mw = device.power_usage()
        device.temperature()
        device.clock_infos()
        return Point(t_ns, float(utilisation.gpu), float(power_mw) / 1000)


if __name__ == "__main__":
    serve(Nvitop)
