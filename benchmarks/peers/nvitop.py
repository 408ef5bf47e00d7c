"""nvitop by its Python API: what a script that logs a GPU would read, at our rate."""

from __future__ import annotations

import importlib
import math
import time
from typing import Any

from benchmarks.peers.serving import Observed, Poller, Sample, Sampler, serve, summarise


class Nvitop(Sampler):
    """Poll utilisation, memory, power, temperature and clocks of one GPU."""

    _device: Any
    _poller: Poller

    def load(self) -> None:
        """Import it and open the GPU."""
        self._device = importlib.import_module("nvitop").Device(self.given.gpu)

    def start(self) -> None:
        """Start polling."""
        self._poller = Poller(self._read, self.given.rate_hz)

    def stop(self) -> Observed:
        """Stop; energy is its power integrated."""
        self._poller.stop()
        samples = [one for one in self._poller.samples if math.isfinite(one.power_w)]
        return summarise(samples, self.start_ns, self.end_ns)

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
