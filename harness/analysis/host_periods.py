"""Trials in slow periods of the host, told from slow workloads by the probe at both ends of each trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean, geometric_mean, median

from harness.model.analysis import MIN_TRIALS
from harness.model.run import Trial
from workloads.protocol import PROBES

# A host below this share of its usual speed is slow. On a quiet machine the probe stays within 5 %.
SLOW = 0.9
# At most so many trials of a workload and device are repeated and left uncounted.
MAX_REPEATED = 2


def host_speeds(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return trial id -> the host's speed over its median among the trials, for trials that have a probe."""
    probes = {trial.id: found for trial in trials if (found := _probe(trial))}
    if len(probes) < MIN_TRIALS:
        return {}
    usual = {name: median(found[name] for found in probes.values()) for name in PROBES}
    return {
        trial: geometric_mean(found[name] / usual[name] for name in PROBES) for trial, found in probes.items()
    }


def slow_trials(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return the host's speed in the trials whose figures do not count, by id.

    Enough other trials must remain of the same workload, device and sweep point, and at most MAX_REPEATED go.
    """
    trials = tuple(trials)
    speeds = host_speeds(trials)
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for trial in trials:
        if trial.id in speeds:
            alike[trial.workload, trial.device, trial.point].append(trial.id)
    result: dict[str, float] = {}
    for names in alike.values():
        slow = sorted((name for name in names if speeds[name] < SLOW), key=lambda name: speeds[name])
        result |= {name: speeds[name] for name in slow[: min(MAX_REPEATED, len(names) - MIN_TRIALS)]}
    return result


def _probe(trial: Trial) -> Mapping[str, float]:
    """Return the mean of each part over both ends of a trial; {} if one is missing."""
    values = {
        name: [metric.value for metric in trial.metrics if metric.name == name and not metric.variant]
        for name in PROBES
    }
    return {name: fmean(found) for name, found in values.items()} if all(map(len, values.values())) else {}
