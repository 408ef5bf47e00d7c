"""Whether runs are slower than a baseline by more than a limit, for a machine that must decide.

Each comparison has an interval that holds together with all others, 95 times in 100. It is

    slower                    when the interval lies below 1 and reaches the limit
    slower, within the limit  when it lies below 1 and ends before the limit
    within the limit          when it ends before the limit and holds 1, or lies above 1
    undecided                 when it holds both 1 and the limit, or there is none

so that noise alone fails a check at most 5 times in 100 over all comparisons together, and a slowdown of
just the limit is found whenever the interval is narrow enough to tell it from none.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.analysis import Estimate, Key
from harness.model.comparison import Check, Decision, Gate, Versus


def gate(versus: Versus, limit: float) -> Gate:
    """Return a check of every ratio over the reference.

    Args:
        versus: over the baseline.
        limit: the share of speed that may be lost, between 0 and 1.
    """
    checks = tuple(
        Check(result=each, decision=_decision(each.ratio, 1 - limit))
        for each in versus.results
        if each.ratio is not None
    )
    return Gate(limit=limit, checks=checks, missing=tuple(_missing(versus)))


def _decision(ratio: Estimate, least: float) -> Decision:
    if ratio.n < 2:
        return Decision.OPEN
    if ratio.high < 1:
        return Decision.SLOWER if ratio.low <= least else Decision.SLIGHTLY
    return Decision.WITHIN if ratio.low > least else Decision.OPEN


def _missing(versus: Versus) -> Iterator[tuple[int, Key]]:
    """Yield what the baseline has and a run has not: a workload that fails must not pass unseen."""
    speeds = [[each.key for each in run.speeds] for run in versus.runs]
    for run, own in enumerate(speeds):
        yield from ((run, key) for key in speeds[versus.reference] if key not in own)
