"""Detect GPUs whose clock was lowered by heat or by the power limit."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case
from harness.model.analysis import Cause, Estimate, Finding, Part
from workloads.protocol import BASELINE

# Minimum share of time at a lowered clock. xprof calls a loss of 5 % moderate.
MIN_TIME_SHARE = 0.05
# Above this share of the maximum clock, the cost of a power limit is below what a 1 % interval can show.
FULL_CLOCK = 0.99

_REASONS = {
    Cause.POWER: (("nvml", "power_capped_s_per_s"), ("nvml", "throttle_sw_power_cap")),
    Cause.HEAT: (("nvml", "throttle_sw_thermal"), ("nvml", "throttle_hw_thermal")),
}


def clock_findings(case: Case) -> Iterator[Finding]:
    """Yield a finding for each NVML reason that lowered a GPU's clock during MIN_TIME_SHARE of the baseline.

    Its share is the time lost to the lower clock. A power limit that does not lower the clock costs nothing.
    """
    clock = _clock_share(case)
    for cause, metrics in _REASONS.items():
        active = [values for metric in metrics if (values := case.gpu_values(BASELINE, metric))]
        time = max((max(values) for values in active), default=0.0)
        if time < MIN_TIME_SHARE or (cause is Cause.POWER and clock is not None and clock >= FULL_CLOCK):
            continue
        lost = 0.0 if clock is None else time * (1.0 - clock)
        yield Finding(
            workload=case.name,
            device=case.device,
            cause=cause,
            parts=(Part.COMPUTE,),
            share=Estimate(median=lost, low=lost, high=lost, n=1, unit="share"),
            facts={"time": time},
        )


def _clock_share(case: Case) -> float | None:
    """Return the lowest mean SM clock of the GPUs as a share of its maximum."""
    clocks = case.gpu_values(BASELINE, ("nvml", "sm_clock_mhz"))
    shares = [
        clock / gpu.clock_max_sm_mhz
        for gpu, clock in zip(case.gpu_models, clocks, strict=False)
        if gpu.clock_max_sm_mhz
    ]
    return min(1.0, *shares) if shares else None
