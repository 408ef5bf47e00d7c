"""Whether runs are slower than a baseline by more than a limit, for a machine that must decide.

Each comparison has an interval that holds together with all others, 95 times in 100. It is

    slower                              when the interval lies below 1 and reaches the limit
    slower, but by less than the limit  when it lies below 1 and ends before the limit
    not slower by the limit             when it ends before the limit and holds 1, or lies above 1
    cannot be told                      when it holds both 1 and the limit, or there is none

so that noise alone fails a check at most 5 times in 100 over all comparisons together, and a slowdown of
just the limit is found whenever the interval is narrow enough to tell it from none.
"""

from __future__ import annotations

from harness.model.comparison import Check, Gate, Ratio, Versus, Word


def gate(versus: Versus, limit: float) -> Gate:
    """Return a check of every tested ratio over the reference.

    Args:
        versus: with a reference.
        limit: the share of speed that may be lost, between 0 and 1.
    """
    checks = tuple(Check(ratio=one, word=_word(one, 1 - limit)) for one in versus.ratios if one.tested)
    return Gate(limit=limit, checks=checks, missing=tuple(_missing(versus)))


def _word(ratio: Ratio, least: float) -> Word:
    if ratio.joint is None:
        return Word.OPEN
    if ratio.joint.high < 1:
        return Word.SLOWER if ratio.joint.low <= least else Word.SLIGHTLY
    return Word.WITHIN if ratio.joint.low > least else Word.OPEN


def _missing(versus: Versus) -> list[str]:
    """Name what the baseline has and a run has not: a workload that fails must not pass unseen."""
    if versus.reference is None:
        return []
    base = versus.runs[versus.reference]
    wanted = {(one.workload, one.device, one.variant) for one in base.speeds}
    found = []
    for number, run in enumerate(versus.runs):
        if number == versus.reference:
            continue
        have = {(one.workload, one.device, one.variant) for one in run.speeds}
        found += [f"{run.label}: {' '.join(key)}" for key in sorted(wanted - have)]
    return found
