"""Detect measurements that are physically impossible and therefore wrong."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case
from harness.model.analysis import Cause, Estimate, Finding, Part, StepTime
from harness.model.run import MAX_SAMPLES_PER_S
from workloads.protocol import BASELINE, BATCH_BYTES, CUSTOM_LOOP, HOST_FED, INPUT_ONLY, MODEL_ONLY

# PCIe generation -> bytes/s of one lane in one direction after encoding (PCI-SIG base specification).
PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
# Tolerance for noise: a variant must be faster than its ceiling by more than this.
TOLERANCE = 0.10

# Where other programs, steal or a quota took more of the baseline's time, variants differ for that reason.
MOST_TAKEN = 0.2

# (variant, ceiling): the variant does all the work of its ceiling and more, so it cannot be faster.
_CEILINGS = (
    (BASELINE, MODEL_ONLY),
    (CUSTOM_LOOP, MODEL_ONLY),
    (HOST_FED, MODEL_ONLY),
    (BASELINE, INPUT_ONLY),
)


def impossible(case: Case, time: StepTime) -> Iterator[Finding]:
    """Yield a finding for each measurement that exceeds its ceiling, the PCIe link or any plausible speed."""
    for variant, ceiling in _CEILINGS:
        lower, upper = case.variants.get(variant), case.variants.get(ceiling)
        if lower is None or upper is None:
            continue
        slowest, fastest = min(_windows(case, variant)), max(_windows(case, ceiling))
        if slowest > fastest * (1 + TOLERANCE) and time.share(Part.HOST) <= MOST_TAKEN:
            yield _finding(case, lower.throughput.median / upper.throughput.median - 1.0, variant, ceiling)
    rate, link = copy_rate(case, time), link_rate(case)
    if rate is not None and link is not None and rate > link * (1 + TOLERANCE):
        yield _finding(case, rate / link - 1.0, bytes_per_s=rate, link_bytes_per_s=link)
    if any(summary.throughput.median > MAX_SAMPLES_PER_S for summary in case.variants.values()):
        yield _finding(case, 1.0)


def _windows(case: Case, variant: str) -> list[float]:
    """Return samples/s of all windows, since a single trial has no interval."""
    return [speed for measure in case.measures[variant] for speed in measure.window_throughputs]


def _finding(case: Case, excess: float, *variants: str, **facts: float) -> Finding:
    return Finding(
        workload=case.name,
        device=case.device,
        cause=Cause.IMPOSSIBLE,
        share=Estimate(median=excess, low=excess, high=excess, n=1, unit="share"),
        variants=variants,
        facts=facts,
    )


def copy_rate(case: Case, time: StepTime) -> float | None:
    """Return the rate in bytes/s at which the copy part moves a batch; None if unknown."""
    size = case.metric(BASELINE, BATCH_BYTES)
    copy = time.parts.get(Part.COPY)
    if HOST_FED not in case.variants or size is None or copy is None or copy.high <= 0:
        return None
    # A very short copy is too uncertain for a rate.
    return size / copy.high if copy.median > TOLERANCE * time.total.median else None


def link_rate(case: Case) -> float | None:
    """Return the one-way PCIe bandwidth of all GPUs of the device in bytes/s; None if unknown."""
    rates = [
        PCIE_LANE_BYTES_PER_S.get(gpu.pcie_gen or 0, 0.0) * (gpu.pcie_width or 0) for gpu in case.gpu_models
    ]
    return sum(rates) if rates and all(rates) else None
