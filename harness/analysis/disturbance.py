"""Readings beside other programs, which do not count where their trial has undisturbed ones of the same variant.

A neighbour that comes or goes during a trial would otherwise move time from one part of the step to another, because
each part is a difference of readings. Where all readings are beside other programs, those are a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.telemetry_means import counter_increases
from harness.model.device import cpu_numbers
from harness.model.run import Run, Series, Trial
from workloads.readings import Window

# CPUs count as saturated if less than this share is free (USE method, Gregg 2013; xprof's 15 % for busy devices):
# else other programs cost nothing.
MIN_FREE_CPUS = 0.15
# Share of the CPU time that others take, above which a reading is beside them; what the harness itself takes is less.
MOST_OTHERS = 0.10

# Variant and number of a reading in its trial.
ReadingKey = tuple[str, int]
# Trial id -> its readings beside other programs.
Disturbed = Mapping[str, Collection[ReadingKey]]


def disturbed(run: Run) -> Disturbed:
    """Return the readings beside other programs, of each trial that has some."""
    pinned = cpu_numbers(run.manifest.options.cpus)
    cpus = len(pinned) or run.manifest.host_facts.get("cpus")
    if not isinstance(cpus, int) or not cpus:
        return {}
    found = {
        trial.id: frozenset(
            key
            for key, windows in _readings(trial).items()
            if _others_share(trial, windows, pinned, cpus) >= MOST_OTHERS
        )
        for trial in run.trials
    }
    return {name: readings for name, readings in found.items() if readings}


def uncounted(trial: Trial, beside: Collection[ReadingKey]) -> frozenset[ReadingKey]:
    """Return the disturbed readings that do not count, because their trial has undisturbed ones of their variant.

    Args:
        beside: the trial's disturbed readings.
    """
    alone = {variant for variant, number in _readings(trial) if (variant, number) not in beside}
    return frozenset((variant, number) for variant, number in beside if variant in alone)


def undisturbed(trial: Trial, beside: Collection[ReadingKey]) -> Trial:
    """Return a trial without its readings that do not count.

    Args:
        beside: the trial's disturbed readings.
    """
    left_out = uncounted(trial, beside)
    if not left_out:
        return trial
    # Some values are reported once for all readings.
    again = {
        (each.variant, each.name) for each in trial.metrics if (each.variant, each.reading) not in left_out
    }
    return replace(
        trial,
        metrics=tuple(
            each
            for each in trial.metrics
            if (each.variant, each.reading) not in left_out or (each.variant, each.name) not in again
        ),
        windows=tuple(each for each in trial.windows if (each.variant, each.reading) not in left_out),
        steps=tuple(each for each in trial.steps if (each.variant, each.reading) not in left_out),
    )


def _readings(trial: Trial) -> dict[ReadingKey, list[Window]]:
    found: dict[ReadingKey, list[Window]] = {}
    for window in trial.windows:
        found.setdefault((window.variant, window.reading), []).append(window)
    return found


def _others_share(trial: Trial, windows: Sequence[Window], pinned: Sequence[int], cpus: int) -> float:
    """Return the share of the CPU time in use that others used; 0 if CPUs were free, or if it is unknown."""
    start, end = windows[0].start_ns, windows[-1].end_ns
    names = [f"core{number}_util_pct" for number in pinned] or ["cpu_util_pct"]
    host, group = _series(trial, "host", names[0]), _series(trial, "cgroup", "cpu_usage_s")
    if host is None or group is None:
        return 0.0
    inside = (host.t_ns >= start) & (host.t_ns <= end)
    values = [host.columns[name][inside] for name in names if name in host.columns]
    if not values or not inside.any() or not np.isfinite(values).any():
        return 0.0
    busy = float(np.nanmean(values)) / 100
    (used_s,) = counter_increases(
        group.t_ns, group.columns["cpu_usage_s"], np.array([start]), np.array([end])
    )
    if (1 - busy) >= MIN_FREE_CPUS or not busy or not np.isfinite(used_s):
        return 0.0
    return max(0.0, 1 - float(used_s) / ((end - start) / 1e9) / cpus / busy)


def _series(trial: Trial, source: str, metric: str) -> Series | None:
    return next((each for each in trial.telemetry if each.source == source and metric in each.columns), None)
