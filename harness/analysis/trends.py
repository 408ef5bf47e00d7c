"""One machine through time: runs of it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from harness.analysis.caveats import DRIFT_CHANGE, DRIFT_P
from harness.analysis.stats import drift
from harness.model.analysis import Key
from harness.model.comparison import Extract, Result, Trend

# Runs of one machine that make a trend.
ENOUGH_RUNS = 6


def trends(runs: Sequence[Extract], results: Sequence[Result]) -> Iterator[Trend]:
    """Yield a trend for each workload, device and variant of machines with enough runs.

    Runs of one kind of machine count as one machine's where none began before the one before it ended.
    """
    speeds: dict[Key, dict[int, float]] = {}
    for each in results:
        speeds.setdefault(each.key, {})[each.run] = each.speed.median
    for machine in dict.fromkeys(run.machine for run in runs):
        own = sorted(
            (at for at, run in enumerate(runs) if run.machine == machine), key=lambda at: runs[at].created
        )
        if len(own) < ENOUGH_RUNS or any(_overlap(runs[item], runs[two]) for item, two in pairwise(own)):
            continue
        for key, of_run in speeds.items():
            shown = tuple(at for at in own if at in of_run)
            if len(shown) >= ENOUGH_RUNS:
                result = drift([of_run[at] for at in shown])
                real = result is not None and result.p < DRIFT_P and abs(result.change) > DRIFT_CHANGE
                change = result.change if result is not None and real else None
                yield Trend(machine=machine, runs=shown, change=change, **key._asdict())


def _overlap(each: Extract, two: Extract) -> bool:
    try:
        begins = [datetime.fromisoformat(run.created) for run in (each, two)]
        return begins[0] + timedelta(seconds=each.duration_s) > begins[1]
    except (TypeError, ValueError):  # no time, or one with and one without a zone
        return True
