"""Cold and sustained speed of a device under a load without pause."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.model.analysis import Endurance
from harness.model.run import Run, Status, Trial
from workloads.protocol import MACHINE, SOAK, WORK

# The sustained speed is the median of the last third; a device is steady when medians of BLOCK windows stay within
# STEADY_BAND of it.
BLOCK, STEADY_BAND = 5, 0.02
_READINGS = ("sm_clock_mhz", "power_instant_w", "temperature_c")


def endurance(run: Run) -> tuple[Endurance, ...]:
    """Return what each saturated device sustained."""
    return tuple(result for trial in run.trials if (result := _endurance(trial)))


def _endurance(trial: Trial) -> Endurance | None:
    work = next((each.value for each in trial.metrics if (each.variant, each.name) == (SOAK, WORK)), None)
    windows = [each for each in trial.windows if each.variant == SOAK]
    if trial.workload != MACHINE or trial.status is not Status.OK or work is None or len(windows) < 3 * BLOCK:
        return None
    speeds = np.array([each.steps * work * 1e9 / (each.end_ns - each.start_ns) for each in windows])
    late = windows[-len(windows) // 3 :]
    sustained = float(np.median(speeds[-len(late) :]))
    medians = np.median(sliding_window_view(speeds, BLOCK), axis=1)
    unsteady = np.flatnonzero(np.abs(medians / sustained - 1) > STEADY_BAND)
    first = int(unsteady[-1]) + 1 if len(unsteady) else 0
    steady = (windows[first].start_ns - windows[0].start_ns) / 1e9 if first < len(medians) else None
    return Endurance(
        device=trial.device,
        cold=float(np.median(speeds[:BLOCK])),
        sustained=sustained,
        steady_s=steady,
        telemetry=dict(_means(trial, late[0].start_ns, late[-1].end_ns)),
    )


def _means(trial: Trial, start_ns: int, end_ns: int) -> Iterator[tuple[str, float]]:
    for series in trial.telemetry:
        inside = (series.t_ns >= start_ns) & (series.t_ns <= end_ns)
        for name in _READINGS:
            if (series.source, series.device) == ("nvml", trial.device) and name in series.columns:
                values = series.columns[name][inside]
                if np.isfinite(values).any():
                    yield name, float(np.nanmean(values))
