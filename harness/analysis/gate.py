"""Decide whether runs are slower than a baseline by more than a limit.

The intervals of all comparisons are simultaneous at 95 %. With the limit at 1 - tolerated loss, a ratio is

    slower                    if its interval is below 1 and reaches the limit
    slower, within the limit  if it is below 1 but above the limit
    within the limit          if it is above the limit and includes 1, or is above 1
    undecided                 if it includes both 1 and the limit, or there is no interval

The probability that noise alone fails any of the checks is at most 5 %. A slowdown by exactly the limit is
detected whenever the interval is narrow enough to exclude 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.analysis import Estimate, Key
from harness.model.comparison import Check, Decision, Gate, Versus


def gate(versus: Versus, limit: float) -> Gate:
    """Check every ratio of a comparison.

    Args:
        versus: comparison with the baseline as reference.
        limit: tolerated loss of speed, as a share from 0 to 1.
    """
    checks = tuple(
        Check(result=each, decision=_decision(each.ratio, 1 - limit))
        for each in versus.results
        if each.ratio is not None
    )
    return Gate(limit=limit, checks=checks, missing=tuple(_missing(versus)))


def _decision(ratio: Estimate, min_ratio: float) -> Decision:
    if ratio.n < 2:
        return Decision.OPEN
    if ratio.high < 1:
        return Decision.SLOWER if ratio.low <= min_ratio else Decision.SLIGHTLY
    return Decision.WITHIN if ratio.low > min_ratio else Decision.OPEN


def _missing(versus: Versus) -> Iterator[tuple[int, Key]]:
    """Yield baseline keys that a run lacks, so that a failed workload does not pass unnoticed."""
    speeds = [[each.key for each in run.speeds] for run in versus.runs]
    for run, keys in enumerate(speeds):
        yield from ((run, key) for key in speeds[versus.reference] if key not in keys)
