"""tfbench's own sampler with all its sources, writing its telemetry files as in a run."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.serving import Observed, Sampler, serve
from harness.analysis.align import increase
from harness.model.run import Series, Window
from harness.telemetry import Target
from harness.telemetry.csvfile import read_series
from harness.telemetry.sampler import sample
from harness.telemetry.sources import default_sources


class Ours(Sampler):
    """Sample into a folder, and read the interval back from it."""

    _stack: ExitStack
    _folder: Path

    def load(self) -> None:
        """Do nothing: it is imported already."""

    def start(self) -> None:
        """Start the sampler's threads."""
        self._folder = Path(self.given.folder) / f"{time.monotonic_ns()}"
        self._folder.mkdir(parents=True)
        target = Target(pid=self.given.pid, gpus={"gpu0": self.given.uuid} if self.given.uuid else {})
        self._stack = ExitStack()
        self._stack.enter_context(sample(default_sources(), target, self._folder, 1 / self.given.rate_hz))

    def stop(self) -> Observed:
        """Stop; energy is the counter's growth as the report has it."""
        self._stack.close()
        return observed(read_series(self._folder), self.start_ns, self.end_ns)


def observed(telemetry: tuple[Series, ...], start_ns: int, end_ns: int) -> Observed:
    """Return what telemetry says of an interval: ticks, utilisation by NVML and by GPM, joules."""
    counter = _having(telemetry, "gpu0", "energy_j")
    window = Window(variant="", index=0, start_ns=start_ns, end_ns=end_ns, steps=1, samples=1, wait_ns=-1)
    joules = math.nan
    if counter is not None:
        joules = float(increase(counter.t_ns, counter.columns["energy_j"], (window,))[0])
    return {
        "samples": len(_values(telemetry, "host", "cpu_util_pct", start_ns, end_ns)),
        "util_pct": _mean(_values(telemetry, "gpu0", "gpu_util_pct", start_ns, end_ns)),
        "sm_util_pct": _mean(_values(telemetry, "gpu0", "sm_util_pct", start_ns, end_ns)),
        "energy_j": joules if math.isfinite(joules) else None,
    }


def _having(telemetry: tuple[Series, ...], device: str, metric: str) -> Series | None:
    """Return the first series of a device that has a metric; which source has it may change."""
    return next((one for one in telemetry if one.device == device and metric in one.columns), None)


def _values(
    telemetry: tuple[Series, ...], device: str, metric: str, start_ns: int, end_ns: int
) -> NDArray[np.float64]:
    series = _having(telemetry, device, metric)
    if series is None:
        return np.empty(0)
    return series.columns[metric][(series.t_ns >= start_ns) & (series.t_ns <= end_ns)]


def _mean(values: NDArray[np.float64]) -> float | None:
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


if __name__ == "__main__":
    serve(Ours)
