"""Readings beside other programs, which do not count where their trial has undisturbed ones of the same variant.

A neighbour that comes or goes during a trial would otherwise move time from one part of the step to another, because
each part is a difference of readings. Where all readings are beside other programs, those are a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.telemetry_means import SECOND_NS, Floats, Ints, counter_increases
from harness.model.run import Metric, Run, Series, StepTimes, Trial
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
    pinned, cpus = run.manifest.pinned, run.manifest.host_cpus
    found = {trial.id: _disturbed(trial, pinned, cpus) for trial in run.trials} if cpus else {}
    return {name: readings for name, readings in found.items() if readings}


def uncounted(trial: Trial, beside: Collection[ReadingKey]) -> frozenset[ReadingKey]:
    """Return the disturbed readings that do not count, because their trial has undisturbed ones of their variant.

    Args:
        beside: the trial's disturbed readings.
    """
    alone = {window.variant for window in trial.windows if _reading_of(window) not in beside}
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
    again = {(each.variant, each.name) for each in trial.metrics if _reading_of(each) not in left_out}
    return replace(
        trial,
        metrics=tuple(
            each
            for each in trial.metrics
            if _reading_of(each) not in left_out or (each.variant, each.name) not in again
        ),
        windows=tuple(each for each in trial.windows if _reading_of(each) not in left_out),
        steps=tuple(each for each in trial.steps if _reading_of(each) not in left_out),
    )


def _reading_of(each: Window | StepTimes | Metric) -> ReadingKey:
    return each.variant, each.reading


def _disturbed(trial: Trial, pinned: Sequence[int], cpus: int) -> frozenset[ReadingKey]:
    """Return the readings in which others used MOST_OTHERS of the CPU time in use, as far as it is known."""
    names = [f"core{number}_util_pct" for number in pinned] or ["cpu_util_pct"]
    host, group = _series(trial, "host", names[0]), _series(trial, "cgroup", "cpu_usage_s")
    if host is None or group is None or not trial.windows:
        return frozenset()
    ends: dict[ReadingKey, tuple[int, int]] = {}
    for window in trial.windows:
        start_ns, _ = ends.get(_reading_of(window), (window.start_ns, 0))
        ends[_reading_of(window)] = start_ns, window.end_ns
    starts_ns, ends_ns = np.array(list(ends.values()), dtype=np.int64).T
    used_s = counter_increases(group.t_ns, group.columns["cpu_usage_s"], starts_ns, ends_ns)
    with np.errstate(invalid="ignore", divide="ignore"):
        used = used_s / ((ends_ns - starts_ns) / SECOND_NS) / cpus
    columns = [host.columns[name] for name in names if name in host.columns]
    shares = zip(ends.items(), used.tolist(), strict=True)
    return frozenset(
        key for (key, span), own in shares if _others_share(host.t_ns, columns, span, own) >= MOST_OTHERS
    )


def _others_share(t_ns: Ints, columns: Sequence[Floats], span: tuple[int, int], used: float) -> float:
    """Return the share of the CPU time in use that others used; 0 if CPUs were free, or if it is unknown.

    Args:
        columns: utilisation of CPUs in percent, at the times `t_ns`.
        used: share of these CPUs that the container used in the time `span`; NaN if unknown.
    """
    inside = (t_ns >= span[0]) & (t_ns <= span[1])
    values = [column[inside] for column in columns]
    if not np.isfinite(values).any():
        return 0.0
    busy = float(np.nanmean(values)) / 100
    if (1 - busy) >= MIN_FREE_CPUS or not busy or not np.isfinite(used):
        return 0.0
    return max(0.0, 1 - used / busy)


def _series(trial: Trial, source: str, metric: str) -> Series | None:
    return next((each for each in trial.telemetry if each.source == source and metric in each.columns), None)
