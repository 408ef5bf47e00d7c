"""Decide whether runs are slower than a baseline by at least a limit; docs/compare.md has the decision table."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.analysis import Key
from harness.model.comparison import Gate, Versus


def gate(versus: Versus) -> Gate:
    """Check every ratio of a comparison, whose reference is the baseline.

    The intervals are simultaneous at 95 %, so in at most 2.5 % of cases a speed fails that lost less than the limit.
    """
    bound = 1 - versus.limit
    ratios = [(each, each.ratio) for each in versus.results if each.ratio is not None]
    return Gate(
        failed=tuple(each for each, ratio in ratios if ratio.n > 1 and ratio.high <= bound),
        open=tuple(each for each, ratio in ratios if ratio.n < 2 or ratio.low <= bound < ratio.high),
        missing=tuple(_missing(versus)),
        is_empty=not any(ratio.n > 1 for _, ratio in ratios),
        copied=tuple(run for run, original in versus.copies if original == versus.reference),
    )


def _missing(versus: Versus) -> Iterator[tuple[int, Key]]:
    """Yield baseline keys that a run lacks, so that a failed workload does not pass unnoticed.

    A run that planned only other workloads, such as a machine that ships with tfbench, lacks nothing.
    """
    wanted = [each.key for each in versus.runs[versus.reference].speeds]
    for position, run in enumerate(versus.runs):
        if any(key.workload in run.titles for key in wanted):
            measured = {each.key for each in run.speeds}
            yield from ((position, key) for key in wanted if key not in measured)
