"""The rules in order, and which verdict on a workload and device comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.analysis.case import cases
from harness.analysis.learning import not_learning
from harness.analysis.rules_device import LAUNCH_HIGH, compute_bound, launch_bound
from harness.analysis.rules_host import contended_host, cpu_quota, power_capped, thermally_capped
from harness.analysis.rules_input import input_bound
from harness.model import Comparison, Finding, Run, Summary, Verdict

# A rule gives None where it has nothing to say on that kind of device or workload.
RULES: tuple[Callable[..., Verdict | None], ...] = (
    not_learning,
    launch_bound,
    input_bound,
    cpu_quota,
    contended_host,
    thermally_capped,
    power_capped,
    compute_bound,
)

_FINDINGS = (Finding.FOUND, Finding.INCONCLUSIVE, Finding.CLEAR)


def verdicts(run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison]) -> tuple[Verdict, ...]:
    """Return all verdicts; of each workload and device the first is the primary one.

    What was found comes before what could not be told and what is clear. Training that does not work comes
    before everything; then the cause that costs most. A device that is itself the limit is what remains
    when nothing else costs LAUNCH_HIGH of the time.
    """
    found: list[Verdict] = []
    for case in cases(run, summaries, ratios):
        said = [verdict for rule in RULES if (verdict := rule(case)) is not None]
        found += sorted(said, key=_rank)
    return tuple(found)


def _rank(verdict: Verdict) -> tuple[int, bool, float]:
    if verdict.finding is not Finding.FOUND:
        return _FINDINGS.index(verdict.finding), False, 0.0
    cost = LAUNCH_HIGH if verdict.rule == "compute-bound" else verdict.cost or 0.0
    return 0, verdict.rule != "not-learning", -cost


def primary(verdicts: Sequence[Verdict], workload: str, device: str) -> Verdict | None:
    """Return what limits a workload on a device most; None when no rule found anything."""
    for verdict in verdicts:
        if verdict.workload == workload and verdict.device == device:
            return verdict if verdict.finding is Finding.FOUND else None
    return None
