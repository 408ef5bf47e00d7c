"""What the host took from a workload: a CPU quota, steal, and other programs."""

from __future__ import annotations

from harness.analysis.case import MIN_FREE_CPUS, Case, cpus_used, host_busy
from harness.model.analysis import Cause
from workloads.protocol import BASELINE, CALLS_PREFIX, MODEL_ONLY


def taken(case: Case) -> dict[Cause, float]:
    """Return the shares of the baseline's time that the host took, those that could be told."""
    shares = {
        Cause.QUOTA: _quota_share(case),
        Cause.STEAL: _steal_share(case),
        Cause.OTHER_PROGRAMS: _others_share(case),
    }
    return {cause: share for cause, share in shares.items() if share is not None}


def _quota_share(case: Case) -> float | None:
    """Return the share of the baseline's time that its CPU quota cost; None without a quota.

    A step takes no less without the quota than it takes now while it is let run, and no less than the model
    alone takes while that is let run: time in which a device computes passes under a quota too.
    """
    held = _held(case, BASELINE)
    if held is None:
        return None
    step_s = case.variants[BASELINE].step_time.median
    needed_s = [step_s * (1.0 - held)]
    for variant, summary in case.variants.items():
        if variant == MODEL_ONLY or variant.startswith(CALLS_PREFIX):
            other = _held(case, variant)
            needed_s += [] if other is None else [summary.step_time.median * (1.0 - other)]
    return max(0.0, 1.0 - max(needed_s) / step_s)


def _held(case: Case, variant: str) -> float | None:
    """Return the share of a variant's time in which the quota held it back, of what it wanted to use."""
    throttled = case.host(variant, "cgroup", "cpu_throttled_s_per_s")
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    if throttled is None or not used:
        return None
    return min(throttled, throttled / (throttled + used))


def _steal_share(case: Case) -> float | None:
    """Return the share of the baseline's time that the hypervisor's other guests took.

    Steal counts against the CPU time that anybody here wanted, and costs a workload no more than the time
    for which it needs a CPU at all.
    """
    steal, busy = case.host(BASELINE, "host", "cpu_steal_pct"), case.host(BASELINE, "host", "cpu_util_pct")
    if steal is None or not steal:
        return None if steal is None else 0.0
    # Time stolen counts as busy.
    wanted = max(busy or 0.0, steal)
    return _felt(case, steal / wanted)


def _others_share(case: Case) -> float | None:
    """Return the share of the baseline's time that other programs took; 0 while there are free CPUs."""
    busy, used, cpus = host_busy(case, BASELINE), cpus_used(case, BASELINE), case.host_cpus
    if busy is None or used is None or not cpus:
        return None
    steal = (case.host(BASELINE, "host", "cpu_steal_pct") or 0.0) / 100
    others = max(0.0, busy - used / cpus - steal)
    if 1.0 - busy >= MIN_FREE_CPUS * min(1.0, (case.cpus or cpus) / cpus) or others < OTHERS_LEAST:
        return 0.0
    return _felt(case, others / (others + used / cpus))


# Below 5 % of the CPUs, which xprof would call no loss, it is the host's own housekeeping.
OTHERS_LEAST = 0.05


def _felt(case: Case, share: float) -> float:
    """Return what a workload felt of a share of CPU time that went elsewhere: at most its wait for a CPU.

    The container's CPU pressure tells that wait. Without it, a fair scheduler lets nobody wait longer for a CPU
    than it uses one, as long as as many others want it.
    """
    waited = case.host(BASELINE, "cgroup", "cpu_pressure_some_s_per_s")
    waited = cpus_used(case, BASELINE) if waited is None else waited
    return share if waited is None else min(share, waited)
