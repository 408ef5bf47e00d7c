"""How wide the widest interval of a run is and why, and how long to measure for narrow ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from harness.analysis.case import Case
from harness.analysis.trial_measures import host_speeds, units
from harness.analysis.utilisation import host_shares
from harness.intervals import own_spread
from harness.model.analysis import RELIABLE_WIDTH, Precision
from harness.model.run import Run
from workloads.variants import measures_speed

# Shares of CPU time that others took are said from here.
_TAKEN = 0.05


def precision(run: Run, cases: Sequence[Case]) -> Precision | None:
    """Return what is known about the widest interval of the run's speeds; None without one."""
    speeds = [(width, case, variant) for case in cases for variant, width in _widths(case).items()]
    if not speeds:
        return None
    width, case, variant = max(speeds, key=lambda one: one[0])
    group, trials = case.measures[variant], case.variants[variant].trial_ids
    within = [_variation(measure.window_throughputs) for measure in group]
    probes = host_speeds(run.trials)
    cause, lost = max(host_shares(case, variant).items(), key=lambda one: one[1], default=(None, 0.0))
    return Precision(
        workload=case.name,
        device=case.device,
        variant=variant,
        width=width,
        between=_variation(units(group)) or 0.0,
        within=median(known) if (known := [each for each in within if each is not None]) else None,
        machine=_variation([probes[name] for name in trials if name in probes]),
        taken_by=cause if lost >= _TAKEN else None,
        taken=lost,
        time_s=run.duration_s + sum(_further_s(run, case) for case in cases),
    )


def _variation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of the logarithms; None for fewer than two values."""
    return own_spread(np.log(values)).deviation if len(values) > 1 else None


def _widths(case: Case) -> dict[str, float]:
    """Return variant -> half width / median, of the speeds that have an interval."""
    return {
        variant: width
        for variant, result in case.variants.items()
        if measures_speed(variant) and (width := result.throughput.half_width) is not None
    }


def _further_s(run: Run, case: Case) -> float:
    """Return how much longer to measure until all speeds of a case are within RELIABLE_WIDTH, in seconds.

    An interval narrows with the root of the number of trials, and each costs as much as the shortest so far.
    """
    trials = [trial for trial in run.trials if (trial.workload, trial.device) == (case.name, case.device)]
    width = max(_widths(case).values(), default=0.0)
    if width <= RELIABLE_WIDTH or not trials:
        return 0.0
    needed = math.ceil(len(trials) * (width / RELIABLE_WIDTH) ** 2)
    shortest_s = min(trial.duration_s for trial in trials)
    return (needed - len(trials)) * shortest_s
