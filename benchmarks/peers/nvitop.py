"""nvitop by its Python API: what a script that logs a GPU would read, at our rate in a thread."""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.peers.serving import Observed, Sampler, serve


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: CLOCK_MONOTONIC in nanoseconds, percent, watts."""

    t_ns: int
    util_pct: float
    power_w: float


def summarise(samples: Sequence[Sample], start_ns: int, end_ns: int) -> Observed:
    """Return the count, mean utilisation and joules (trapezoidal rule) of the samples in an interval.

    Power is held constant beyond the first and the last reading.
    """
    inside = [one for one in samples if start_ns <= one.t_ns <= end_ns]
    if not inside:
        return {"samples": 0, "util_pct": None, "energy_j": None}
    knots = [
        (start_ns, inside[0].power_w),
        *((one.t_ns, one.power_w) for one in inside),
        (end_ns, inside[-1].power_w),
    ]
    joules = sum(
        (after - before) / 1e9 * (one + other) / 2 for (before, one), (after, other) in pairwise(knots)
    )
    util = sum(one.util_pct for one in inside) / len(inside)
    return {"samples": len(inside), "util_pct": util, "energy_j": joules}


class Nvitop(Sampler):
    """Poll utilisation, memory, power, temperature and clocks of one GPU."""

    _device: Any
    _samples: list[Sample]
    _error: Exception | None
    _thread: threading.Thread
    _stopped: threading.Event

    def load(self) -> None:
        """Import it and open the GPU."""
        self._device = importlib.import_module("nvitop").Device(self.given.gpu)

    def start(self) -> None:
        """Start polling."""
        self._samples, self._error, self._stopped = [], None, threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def stop(self) -> Observed:
        """Stop; energy is its power integrated."""
        self._stopped.set()
        self._thread.join(5)
        if self._error is not None:
            raise self._error
        samples = [one for one in self._samples if math.isfinite(one.power_w)]
        return summarise(samples, self.start_ns, self.end_ns)

    def _poll(self) -> None:
        due = time.monotonic()
        try:
            while not self._stopped.wait(max(0.0, due - time.monotonic())):
                self._samples.append(self._read())
                due += 1 / self.given.rate_hz
        except Exception as error:  # raised again by stop
            self._error = error

    def _read(self) -> Sample:
        t_ns = time.monotonic_ns()
        device = self._device
        utilisation = device.utilization_rates()
        device.memory_info()
        power_mw = device.power_usage()
        device.temperature()
        device.clock_infos()
        return Sample(t_ns, float(utilisation.gpu), float(power_mw) / 1000)


if __name__ == "__main__":
    serve(Nvitop)
