"""tfbench's own sampler with all its sources, writing its telemetry files as in a run."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.answering import Seen, Watch, serve
from harness.analysis.align import increase
from harness.model.run import Series, Window
from harness.telemetry import Target
from harness.telemetry.csvfile import read_series
from harness.telemetry.sampler import sample
from harness.telemetry.sources import default_sources


class Ours:
    """Sample into a folder, and read the stretch back from it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._stack = ExitStack()
        self._folder = Path(watch.folder)
        self._start_ns = self._end_ns = 0

    def load(self) -> None:
        """Do nothing: it is loaded."""

    def on(self) -> None:
        """Start the sampler's threads."""
        self._folder = Path(self._watch.folder) / f"{time.monotonic_ns()}"
        self._folder.mkdir(parents=True)
        gpus = {"gpu0": self._watch.uuid} if self._watch.uuid else {}
        target = Target(pid=self._watch.pid, gpus=gpus)
        self._stack.enter_context(sample(default_sources(), target, self._folder, 1 / self._watch.rate_hz))

    def begin(self) -> None:
        """Take note of the time."""
        self._start_ns = time.monotonic_ns()

    def end(self) -> None:
        """Take note of the time."""
        self._end_ns = time.monotonic_ns()

    def off(self) -> Seen:
        """Stop; energy is the counter's growth as the report has it."""
        self._stack.close()
        return seen(read_series(self._folder), self._start_ns, self._end_ns)


def seen(telemetry: tuple[Series, ...], start_ns: int, end_ns: int) -> Seen:
    """Return what telemetry says of a stretch: ticks, utilisation by NVML and by GPM, joules."""
    host = _having(telemetry, "host", "cpu_util_pct")
    counter = _having(telemetry, "gpu0", "energy_j")
    stretch = Window(variant="", index=0, start_ns=start_ns, end_ns=end_ns, steps=1, samples=1, wait_ns=-1)
    joules = None
    if counter is not None:
        joules = float(increase(counter.t_ns, counter.columns["energy_j"], (stretch,))[0])
    return {
        "samples": 0 if host is None else int(_inside(host, start_ns, end_ns).sum()),
        "util_pct": _mean(_having(telemetry, "gpu0", "gpu_util_pct"), "gpu_util_pct", start_ns, end_ns),
        "sm_util_pct": _mean(_having(telemetry, "gpu0", "sm_util_pct"), "sm_util_pct", start_ns, end_ns),
        "energy_j": joules if joules is not None and math.isfinite(joules) else None,
    }


def _having(telemetry: tuple[Series, ...], device: str, metric: str) -> Series | None:
    """Return the first series of a device that has a metric; which source has it may change."""
    return next((one for one in telemetry if one.device == device and metric in one.columns), None)


def _inside(series: Series, start_ns: int, end_ns: int) -> NDArray[np.bool_]:
    return (series.t_ns >= start_ns) & (series.t_ns <= end_ns)


def _mean(series: Series | None, metric: str, start_ns: int, end_ns: int) -> float | None:
    if series is None:
        return None
    values = series.columns[metric][_inside(series, start_ns, end_ns)]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


if __name__ == "__main__":
    serve(Ours)
