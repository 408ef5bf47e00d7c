"""Clocks that heat, the power limit or the hardware lowered, in every variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.case import Case
from harness.model.analysis import Cause, Caveat, CaveatKind, Clocks, Estimate, Finding, Part
from workloads.protocol import BASELINE

_REASONS = {
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
    for cause, metrics in _REASONS.items():
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


def throttling_caveats(measured: Sequence[Clocks]) -> Iterator[Caveat]:
    """Yield a caveat for each variant and cause that lowered its clock."""
    for each in measured:
        for cause, time in each.slowed.items():
            yield Caveat(kind=CaveatKind.THROTTLED, **each.key._asdict(), value=time, text=cause.value)
