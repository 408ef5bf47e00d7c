"""Zeus: a window of its ZeusMonitor around the stretch, and its PowerMonitor polling at our rate."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.answering import Seen, Watch, serve


class Zeus:
    """Energy from ZeusMonitor, which reads the GPU's counter; polled power beside it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._module: Any = None
        self._monitor: Any = None
        self._power: Any = None
        self._start_s = self._end_s = 0.0
        self._energy_j: float | None = None

    def load(self) -> None:
        """Import it and make the monitor; a package of another vendor for old GPUs is no concern here."""
        self._module = importlib.import_module("zeus.monitor")
        self._monitor = self._module.ZeusMonitor(gpu_indices=[self._watch.gpu], cpu_indices=[])

    def on(self) -> None:
        """Start the power monitor's processes, one for each kind of power that the GPU knows."""
        power = importlib.import_module("zeus.monitor.power")
        self._power = power.PowerMonitor(gpu_indices=[self._watch.gpu], update_period=1 / self._watch.rate_hz)

    def begin(self) -> None:
        """Open a window; there is no framework in this process to synchronise with."""
        self._monitor.begin_window("stretch", sync_execution=False, restart=True)

    def end(self) -> None:
        """Close it."""
        measured = self._monitor.end_window("stretch", sync_execution=False)
        self._energy_j = float(measured.total_energy)
        self._duration_s = float(measured.time)

    def off(self) -> Seen:
        """Stop. Zeus sees no utilisation; samples are polls, as it records changes of power only."""
        domains = len(self._power.measurement_domains)
        self._power.stop()
        self._power = None
        samples = self._duration_s * self._watch.rate_hz * domains
        return {"samples": samples, "util_pct": None, "energy_j": self._energy_j}


if __name__ == "__main__":
    serve(Zeus)
