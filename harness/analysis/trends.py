"""Trends over successive runs on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from harness.analysis.caveats import DRIFT_CHANGE, DRIFT_P
from harness.analysis.stats import drift
from harness.model.analysis import Key
from harness.model.comparison import Extract, Result, Trend

# Minimum number of runs for a trend.
MIN_RUNS = 6


def trends(runs: Sequence[Extract], results: Sequence[Result]) -> Iterator[Trend]:
    """Yield a trend for each workload, device and variant of machines with at least MIN_RUNS runs.

    Runs on one kind of machine are taken to be from a single machine if they do not overlap in time.
    """
    speeds: dict[Key, dict[int, float]] = {}
    for each in results:
        speeds.setdefault(each.key, {})[each.run] = each.speed.median
    for machine in dict.fromkeys(run.machine for run in runs):
        indices = sorted(
            (index for index, run in enumerate(runs) if run.machine == machine),
            key=lambda index: runs[index].created,
        )
        if len(indices) < MIN_RUNS or any(
            _overlap(runs[earlier], runs[later]) for earlier, later in pairwise(indices)
        ):
            continue
        for key, by_run in speeds.items():
            measured = tuple(index for index in indices if index in by_run)
            if len(measured) >= MIN_RUNS:
                result = drift([by_run[index] for index in measured])
                significant = result is not None and result.p < DRIFT_P and abs(result.change) > DRIFT_CHANGE
                change = result.change if result is not None and significant else None
                yield Trend(machine=machine, runs=measured, change=change, **key._asdict())


def _overlap(earlier: Extract, later: Extract) -> bool:
    try:
        start, next_start = (datetime.fromisoformat(run.created) for run in (earlier, later))
        return start + timedelta(seconds=earlier.duration_s) > next_start
    except (TypeError, ValueError):  # not a time, or only one of them has a time zone
        return True
