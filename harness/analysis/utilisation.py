"""How busy devices, containers and hosts were while a variant ran, and where time went besides its own steps.

What lowered the clocks; what a CPU quota, steal and other programs took; the input pipeline alone, by stage.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.case import Case
from harness.analysis.disturbance import MIN_FREE_CPUS
from harness.analysis.telemetry_means import core_mean
from harness.intervals import estimate
from harness.model.analysis import Cause, Clocks, Estimate, Finding, Pipeline, Stage
from harness.model.metrics import GPU_UTILISATION
from workloads.variants import BASELINE, CALLS, INPUT_ONLY, MODEL_ONLY, STAGE, THREADS, Part

# Less than 5 % of the CPUs is the host's own housekeeping; xprof would not call it a loss.
MIN_OTHERS = 0.05
# A pipeline with more CPU use or speedup than this, compared with one thread, is parallel.
SERIAL_CPUS, SERIAL_SPEEDUP = 1.25, 1.25
# Stages below this share of the pipeline's time are not named.
MIN_STAGE_SHARE = 0.05


def device_activity(case: Case, variant: str) -> float | None:
    """Return the share of time in which a kernel was resident on the GPUs, or in which the CPUs were busy.

    For a GPU this is an upper bound of its real utilisation.
    """
    if case.on_gpu:
        return case.gpu_share(variant, *GPU_UTILISATION)
    used, cpus = cpus_used(case, variant), case.cpus
    return min(1.0, used / cpus) if used is not None and cpus else None


def cpus_used(case: Case, variant: str) -> float | None:
    """Return the CPU time used by the container in a variant, in CPUs."""
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    return case.host(variant, "process", "cpu_usage_s_per_s") if used is None else used


def host_busy(case: Case, variant: str) -> float | None:
    """Return the utilisation of the pinned CPUs, or of all CPUs of the host, from 0 to 1."""
    if pinned := case.run.manifest.pinned:
        names = [f"core{number}_util_pct" for number in pinned]
        cores = [
            value
            for trial in case.trials
            for name in names
            if (value := core_mean(trial, variant, name)) is not None
        ]
        return sum(cores) / len(cores) / 100 if cores else None
    busy = case.host(variant, "host", "cpu_util_pct")
    return None if busy is None else busy / 100


_CLOCK_REASONS = {
    Cause.POWER: (("nvml", "power_capped_s_per_s"), ("nvml", "throttle_sw_power_cap")),
    Cause.HEAT: (("nvml", "throttle_sw_thermal"), ("nvml", "throttle_hw_thermal")),
    Cause.HARDWARE: (("nvml", "throttle_hw_slowdown"),),
}


def clocks(case: Case, variant: str) -> Clocks | None:
    """Return a variant's clocks, of its slowest GPU; None without readings."""
    measured = case.gpu_values(variant, ("nvml", "sm_clock_mhz"))
    limits = [gpu.clock_max_sm_mhz for gpu in case.gpu_models]
    pairs = [(mhz, float(most)) for mhz, most in zip(measured, limits, strict=False) if most]
    times: dict[Cause, float] = {}
    for cause, metrics in _CLOCK_REASONS.items():
        active = [values for metric in metrics if (values := case.gpu_values(variant, metric))]
        if active:
            times[cause] = min(1.0, max(map(max, active)))
    if not pairs and not times:
        return None
    mhz, most = min(pairs, key=lambda pair: pair[0] / pair[1], default=(None, None))
    return Clocks(mhz=mhz, max_mhz=most, lowered=times)


def clock_findings(case: Case) -> Iterator[Finding]:
    """Yield a finding for each cause that lowered the clock of the baseline; its share is the time lost."""
    found = clocks(case, BASELINE)
    if found is None:
        return
    for cause, time in found.slowed.items():
        lost = 0.0 if found.share is None else time * (1.0 - found.share)
        yield case.finding(cause, Estimate.exact(lost, "share"), Part.COMPUTE, facts={"time": time})


def host_shares(case: Case, variant: str = BASELINE) -> dict[Cause, float]:
    """Return the share of a variant's time lost to each host cause, without unknown ones."""
    shares = {
        Cause.QUOTA: _quota_share(case, variant),
        Cause.STEAL: _steal_share(case, variant),
        Cause.OTHER_PROGRAMS: _others_share(case, variant),
    }
    return {cause: share for cause, share in shares.items() if share is not None}


def _quota_share(case: Case, variant: str) -> float | None:
    """Return the share of a variant's time lost to its CPU quota; None without a quota.

    Without the quota, a step would take at least its unthrottled time, and the baseline at least the unthrottled
    time of the model alone: a device keeps computing while the CPU is throttled.
    """
    throttled = _throttled_share(case, variant)
    if throttled is None:
        return None
    step_s = case.variants[variant].step_time.median
    min_step_s = [step_s * (1.0 - throttled)]
    for name, summary in case.variants.items():
        if variant == BASELINE and (name == MODEL_ONLY or CALLS.has(name)):
            other = _throttled_share(case, name)
            if other is not None:
                min_step_s.append(summary.step_time.median * (1.0 - other))
    return max(0.0, 1.0 - max(min_step_s) / step_s)


def _throttled_share(case: Case, variant: str) -> float | None:
    """Return the throttled share of the time that a variant ran or wanted to run."""
    throttled = case.host(variant, "cgroup", "cpu_throttled_s_per_s")
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    if throttled is None or not used:
        return None
    return min(throttled, throttled / (throttled + used))


def _steal_share(case: Case, variant: str) -> float | None:
    """Return the share of a variant's time lost to other guests of the hypervisor.

    Steal is related to the CPU time demanded by the whole machine. A workload loses no more than the time in
    which it needs a CPU.
    """
    steal, busy = case.host(variant, "host", "cpu_steal_pct"), case.host(variant, "host", "cpu_util_pct")
    if not steal:
        return steal
    # Stolen time is included in busy time.
    demand = max(busy or 0.0, steal)
    return _limited_by_waiting(case, variant, steal / demand)


def _others_share(case: Case, variant: str) -> float | None:
    """Return the share of a variant's time lost to other programs; 0 if there are free CPUs."""
    busy, used, cpus = host_busy(case, variant), cpus_used(case, variant), case.run.manifest.host_cpus
    if busy is None or used is None or not cpus:
        return None
    steal = (case.host(variant, "host", "cpu_steal_pct") or 0.0) / 100
    others = max(0.0, busy - used / cpus - steal)
    if free_cpus(case, variant) is None or others < MIN_OTHERS:
        return 0.0
    return _limited_by_waiting(case, variant, others / (others + used / cpus))


def _limited_by_waiting(case: Case, variant: str, share: float) -> float:
    """Return a share of CPU time lost, limited to the time in which the workload waited for a CPU.

    The container's CPU pressure measures this wait, of any of its threads. CPU usage is a limit too: with equal demand
    from others, a fair scheduler keeps nobody waiting longer than it runs, and what sleeps waits for no CPU. So is what
    the container's CPUs, or its quota, had left: pressure counts the time that a quota takes too.
    """
    used = cpus_used(case, variant)
    limits = [case.host(variant, "cgroup", "cpu_pressure_some_s_per_s"), used]
    if used is not None and case.cpus:
        limits.append(max(0.0, 1.0 - used / case.cpus))
    return min([share, *(each for each in limits if each is not None)])


def free_cpus(case: Case, variant: str) -> float | None:
    """Return the free share of the CPUs available to the container if they are saturated.

    None if at least MIN_FREE_CPUS is free, when other programs cost nothing, or if unknown.
    """
    busy, total = host_busy(case, variant), case.run.manifest.host_cpus
    if busy is None or not total:
        return None
    free = min(1.0, (1.0 - busy) * total / (case.cpus or total))
    return free if free < MIN_FREE_CPUS else None


def pipeline(case: Case) -> Pipeline | None:
    """Return the input pipeline; None without an input-only measurement."""
    if INPUT_ONLY not in case.variants:
        return None
    return Pipeline(stages=tuple(_stages(case)), cpus_used=cpus_used(case, INPUT_ONLY), cpus=case.cpus)


def _stages(case: Case) -> Iterator[Stage]:
    """Yield the time per sample that each stage adds, in pipeline order, estimated over windows."""
    own = case.function_costs()
    if own:
        yield from (Stage(name=name, cost=cost) for name, cost in own.items())
        return
    # Variants are in the order in which they ran.
    ran = [STAGE.argument(name) for name in STAGE.among(case.variants)]
    before = Estimate.exact(0.0, "s/sample")
    for name in ran:
        group = case.measures[STAGE.of(name)]
        after = estimate([1 / speed for each in group for speed in each.window_throughputs], "s/sample")
        assert after is not None  # a measure has at least one window
        yield Stage(name=name, cost=_difference(before, after))
        # An additional stage cannot save time; apparent savings are noise.
        before = max(before, after, key=lambda each: each.median)


def _difference(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two independent estimates, clipped at zero."""
    middle = after.median - before.median
    down = np.hypot(after.median - after.low, before.high - before.median)
    up = np.hypot(after.high - after.median, before.median - before.low)
    return Estimate(
        median=max(0.0, middle), low=max(0.0, middle - float(down)), high=max(0.0, middle + float(up)),
        n=after.n, unit=after.unit,
    )  # fmt: skip


def slowest_stages(case: Case) -> tuple[str, ...]:
    """Return the slowest stage and those that cannot be distinguished from it."""
    costs = list(_stages(case))
    total = sum(each.cost.median for each in costs)
    slowest = max(costs, key=lambda each: each.cost.median, default=None)
    if slowest is None or slowest.cost.median < MIN_STAGE_SHARE * total or not total:
        return ()
    return tuple(
        each.name
        for each in costs
        if each is slowest
        or (each.cost.high >= slowest.cost.low and each.cost.median >= slowest.cost.median / 2)
    )


def is_serial(case: Case) -> bool | None:
    """Return whether the pipeline prepares one sample at a time; None if unknown."""
    feed, single = case.speed(INPUT_ONLY), case.speed(THREADS.in_breakdown)
    if feed is None or single is None or (one := uses_one_cpu(case)) is None:
        return None
    return one and feed <= SERIAL_SPEEDUP * single


def uses_one_cpu(case: Case) -> bool | None:
    """Return whether the pipeline uses at most one CPU; None if unknown, also if no other CPU was free.

    One that waits may still be parallel.
    """
    used = cpus_used(case, INPUT_ONLY)
    return None if used is None or free_cpus(case, INPUT_ONLY) is not None else used <= SERIAL_CPUS
