"""How busy devices, containers and hosts were while a variant ran, and what lowered the clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.case import Case
from harness.analysis.trial_measures import core_mean
from harness.model.analysis import GPU_UTILISATION, Cause, Clocks, Estimate, Finding, Part
from workloads.protocol import BASELINE


def device_activity(case: Case, variant: str) -> float | None:
    """Return the share of time in which a kernel was resident on the GPUs, or in which the CPUs were busy.

    For a GPU this is an upper bound of its real utilisation.
    """
    if case.on_gpu:
        values = case.gpu_values(variant, *GPU_UTILISATION)
        return sum(values) / len(values) / 100 if values else None
    used, cpus = cpus_used(case, variant), case.cpus
    return min(1.0, used / cpus) if used is not None and cpus else None


def cpus_used(case: Case, variant: str) -> float | None:
    """Return the CPU time used by the container in a variant, in CPUs."""
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    return case.host(variant, "process", "cpu_usage_s_per_s") if used is None else used


def host_busy(case: Case, variant: str) -> float | None:
    """Return the utilisation of the pinned CPUs, or of all CPUs of the host, from 0 to 1."""
    if case.pinned:
        names = [f"core{number}_util_pct" for number in case.pinned]
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


def clocks(cases: Sequence[Case]) -> tuple[Clocks, ...]:
    """Return the clocks of each variant on GPUs whose telemetry has them."""
    return tuple(each for case in cases for variant in case.variants if (each := _clocks(case, variant)))


def _clocks(case: Case, variant: str) -> Clocks | None:
    """Return a variant's clocks, of its slowest GPU; None without readings."""
    measured = case.gpu_values(variant, ("nvml", "sm_clock_mhz"))
    limits = [gpu.clock_max_sm_mhz for gpu in case.gpu_models]
    pairs = [(mhz, float(most)) for mhz, most in zip(measured, limits, strict=False) if most]
    times: dict[Cause, float] = {}
    for cause, metrics in _CLOCK_REASONS.items():
        active = [values for metric in metrics if (values := case.gpu_values(variant, metric))]
        times |= {cause: min(1.0, max(map(max, active)))} if active else {}
    if not pairs and not times:
        return None
    mhz, most = min(pairs, key=lambda pair: pair[0] / pair[1], default=(None, None))
    return Clocks(
        workload=case.name, device=case.device, variant=variant, mhz=mhz, max_mhz=most, lowered=times
    )


def clock_findings(case: Case) -> Iterator[Finding]:
    """Yield a finding for each cause that lowered the clock of the baseline; its share is the time lost."""
    clocks = _clocks(case, BASELINE)
    for cause, time in clocks.slowed.items() if clocks else ():
        lost = 0.0 if clocks is None or clocks.share is None else time * (1.0 - clocks.share)
        yield Finding(
            workload=case.name,
            device=case.device,
            cause=cause,
            parts=(Part.COMPUTE,),
            share=Estimate(median=lost, low=lost, high=lost, n=1, unit="share"),
            facts={"time": time},
        )
