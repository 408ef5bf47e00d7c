"""CodeCarbon's offline tracker at one measurement a second, the fastest that its documentation uses."""

from __future__ import annotations

import importlib
import time
from typing import Any

from benchmarks.peers.serving import Observed, Sampler, serve

JOULES_PER_KWH = 3.6e6
INTERVAL_S = 1


class CodeCarbon(Sampler):
    """Track, and flush the tracker at both ends of the interval."""

    _module: Any
    _tracker: Any
    _flushed: list[tuple[int, Any]]

    def load(self) -> None:
        """Import it."""
        self._module = importlib.import_module("codecarbon")

    def start(self) -> None:
        """Start a tracker whose results come here and go nowhere else."""
        base = importlib.import_module("codecarbon.output").BaseOutput
        flushed: list[tuple[int, Any]] = []

        class Collect(base):  # type: ignore[misc, valid-type]
            def out(self, total: Any, delta: Any) -> None:
                flushed.append((time.monotonic_ns(), total))

            def live_out(self, total: Any, delta: Any) -> None:
                pass

        self._flushed = flushed
        self._tracker = self._module.OfflineEmissionsTracker(
            country_iso_code="USA",
            measure_power_secs=INTERVAL_S,
            save_to_file=False,
            log_level="critical",
            allow_multiple_runs=True,
            output_handlers=[Collect()],
            gpu_ids=None if self.given.gpu is None else [self.given.gpu],
        )
        self._tracker.start()

    def begin(self) -> None:
        """Have it account for the time up to now."""
        self._tracker.flush()

    def end(self) -> None:
        """Have it account for the time up to now."""
        self._tracker.flush()

    def stop(self) -> Observed:
        """Stop, and return the difference of the two flushes."""
        if len(self._flushed) < 2:
            raise RuntimeError("the tracker flushed nothing")
        (start_ns, before), (end_ns, after) = self._flushed[:2]
        self._tracker.stop()
        on_gpu = self.given.gpu is not None
        if on_gpu and not after.gpu_energy:
            raise RuntimeError("it reports no energy of the GPU; it finds GPUs only where nvidia-smi runs")
        return {
            "samples": (end_ns - start_ns) / 1e9 / INTERVAL_S,
            "util_pct": after.gpu_utilization_percent if on_gpu else None,
            "energy_j": (after.gpu_energy - before.gpu_energy) * JOULES_PER_KWH if on_gpu else None,
        }


if __name__ == "__main__":
    serve(CodeCarbon)
