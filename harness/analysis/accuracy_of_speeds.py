"""How wide the widest interval of a run is and why, and how long to measure for narrow ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from harness.analysis.case import Case
from harness.analysis.stats import units
from harness.analysis.trial_measures import host_speeds
from harness.analysis.utilisation import host_shares
from harness.intervals import own_spread
from harness.model.analysis import RELIABLE_WIDTH, Key, Precision, Summary
from harness.model.run import Run
from workloads.variants import measures_speed

# Shares of CPU time that others took are said from here.
_TAKEN = 0.05


def precision(run: Run, cases: Sequence[Case]) -> Precision | None:
    """Return what is known about the widest interval of the run's speeds; None without one."""
    speeds = [
        (case, summary)
        for case in cases
        for summary in case.variants.values()
        if measures_speed(summary.variant) and summary.throughput.half_width is not None
    ]
    if not speeds:
        return None
    case, widest = max(speeds, key=lambda one: one[1].throughput.half_width or 0.0)
    group = case.measures[widest.variant]
    within = [_variation(measure.window_throughputs) for measure in group]
    probes = host_speeds(run.trials)
    taken = max(host_shares(case, widest.variant).items(), key=lambda one: one[1], default=None)
    return Precision(
        **Key(widest.workload, widest.device, widest.variant)._asdict(),
        width=widest.throughput.half_width or 0.0,
        between=_variation(units(group)) or 0.0,
        within=median(known) if (known := [each for each in within if each is not None]) else None,
        machine=_variation([probes[name] for name in widest.trial_ids if name in probes]),
        taken_by=taken[0] if taken and taken[1] >= _TAKEN else None,
        taken=taken[1] if taken else 0.0,
        time_s=_needed_s(run, [summary for _, summary in speeds]),
    )


def _variation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of the logarithms; None for fewer than two values."""
    return own_spread(np.log(values)).deviation if len(values) > 1 else None


def _needed_s(run: Run, speeds: Sequence[Summary]) -> float:
    """Return how long to measure until all speeds are within RELIABLE_WIDTH, in seconds.

    An interval narrows with the root of the number of trials, and each costs as much as the shortest so far.
    """
    return run.duration_s + sum(_further_s(run, speeds))


def _further_s(run: Run, speeds: Sequence[Summary]) -> Iterator[float]:
    for workload, device in dict.fromkeys((summary.workload, summary.device) for summary in speeds):
        own = [summary for summary in speeds if (summary.workload, summary.device) == (workload, device)]
        trials = [trial for trial in run.trials if (trial.workload, trial.device) == (workload, device)]
        width = max(summary.throughput.half_width or 0.0 for summary in own)
        if width > RELIABLE_WIDTH and trials:
            needed = math.ceil(len(trials) * (width / RELIABLE_WIDTH) ** 2)
            shortest_s = min((trial.ended_ns - trial.started_ns) / 1e9 for trial in trials)
            yield (needed - len(trials)) * shortest_s
