"""Zeus: a window of its ZeusMonitor around the interval, and its PowerMonitor polling at our rate."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.serving import Observed, Sampler, serve


class Zeus(Sampler):
    """Energy from ZeusMonitor, which reads the GPU's counter; polled power beside it."""

    _monitor: Any
    _power: Any
    _measured: Any

    def load(self) -> None:
        """Import it and create the monitor."""
        module = importlib.import_module("zeus.monitor")
        self._monitor = module.ZeusMonitor(gpu_indices=[self.given.gpu], cpu_indices=[])

    def start(self) -> None:
        """Start the power monitor's processes, one for each kind of power that the GPU knows."""
        power = importlib.import_module("zeus.monitor.power")
        self._power = power.PowerMonitor(gpu_indices=[self.given.gpu], update_period=1 / self.given.rate_hz)

    def begin(self) -> None:
        """Open a window; there is no framework in this process to synchronise with."""
        self._monitor.begin_window("interval", sync_execution=False, restart=True)

    def end(self) -> None:
        """Close it."""
        self._measured = self._monitor.end_window("interval", sync_execution=False)

    def stop(self) -> Observed:
        """Stop. Zeus sees no utilisation; samples are polls, as it records changes of power only."""
        domains = len(self._power.measurement_domains)
        self._power.stop()
        samples = float(self._measured.time) * self.given.rate_hz * domains
        return {"samples": samples, "util_pct": None, "energy_j": float(self._measured.total_energy)}


if __name__ == "__main__":
    serve(Zeus)
