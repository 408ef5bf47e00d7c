"""The rules in order, and which verdict on a workload and device comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.analysis.case import cases
from harness.analysis.learning import not_learning
from harness.analysis.rules_data import copy_bound, disk_bound
from harness.analysis.rules_device import compute_bound, launch_bound, memory_bound
from harness.analysis.rules_host import contended_host, cpu_quota, power_capped, thermally_capped
from harness.analysis.rules_input import input_bound, no_overlap
from harness.model.analysis import Comparison, Finding, Summary, Verdict
from harness.model.run import Run
from workloads.protocol import BASELINE, measures_speed

# A rule gives None where it has nothing to say on that kind of device or workload.
RULES: tuple[Callable[..., Verdict | None], ...] = (
    not_learning,
    launch_bound,
    disk_bound,
    copy_bound,
    input_bound,
    no_overlap,
    cpu_quota,
    contended_host,
    thermally_capped,
    power_capped,
    memory_bound,
    compute_bound,
)
# A device that is itself the limit loses no time. It stands behind what costs more than MLPerf Storage lets
# input cost: 10 %, since accelerator utilisation must be 90 %.
LIMIT_COUNTS = 0.10
_LIMITS = ("compute-bound", "memory-bandwidth-bound")
LEFT_OUT = "Not looked into: the run was made with --no-analysis."
NOT_MEASURED = "Not looked into: baseline, of which this speaks, was not among the variants that were run."

_FINDINGS = (Finding.FOUND, Finding.INCONCLUSIVE, Finding.CLEAR)


def verdicts(run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison]) -> tuple[Verdict, ...]:
    """Return all verdicts; of each workload and device the first is the primary one.

    What was found comes before what could not be told and what is clear. Training that does not work comes
    before everything; then the cause that costs most. A device that is itself the limit is what remains
    when nothing else costs LIMIT_COUNTS of the time.
    """
    found: list[Verdict] = []
    for case in cases(run, summaries, ratios):
        said = [verdict for rule in RULES if (verdict := rule(case)) is not None]
        why = LEFT_OUT if not analysed(run) else "" if BASELINE in case.variants else NOT_MEASURED
        if why:
            said = [
                replace(one, sentence=why) if one.finding is Finding.INCONCLUSIVE else one for one in said
            ]
        found += sorted(said, key=_rank)
    return tuple(found)


def analysed(run: Run) -> bool:
    """Tell whether the run measured what holds it back, as it does unless told --no-analysis."""
    options = run.manifest.parameters.get("options")
    if not isinstance(options, Mapping) or options.get("analysis") is not False:
        return True
    variants = [
        variant.strip() for variant in str(options.get("variants") or "").split(",") if variant.strip()
    ]
    return any(not measures_speed(variant) for variant in variants)


def _rank(verdict: Verdict) -> tuple[int, bool, float]:
    if verdict.finding is not Finding.FOUND:
        return _FINDINGS.index(verdict.finding), False, 0.0
    cost = LIMIT_COUNTS if verdict.rule in _LIMITS else verdict.cost or 0.0
    return 0, verdict.rule != "not-learning", -cost


def primary(verdicts: Sequence[Verdict], workload: str, device: str) -> Verdict | None:
    """Return what limits a workload on a device most; None when no rule found anything."""
    for verdict in verdicts:
        if verdict.workload == workload and verdict.device == device:
            return verdict if verdict.finding is Finding.FOUND else None
    return None
