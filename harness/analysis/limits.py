"""What physics forbids: a measurement beyond it is wrong, and is said to be."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case
from harness.model.analysis import Cause, Estimate, Finding, Part, StepTime
from workloads.protocol import BASELINE, BATCH_BYTES, CUSTOM_LOOP, HOST_FED, INPUT_ONLY, MODEL_ONLY

# PCI Express: bytes/s of one lane of each generation in one direction, after encoding (PCI-SIG base specification).
PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
# A variant that has to do what another does cannot be faster; noise of so much is no contradiction.
TOLERANCE = 0.10
# Nothing feeds a step of any model faster than this.
SAMPLES_PER_S = 1e12

# A variant, and what it cannot be faster than: it does the same and more.
_CEILINGS = (
    (BASELINE, MODEL_ONLY),
    (CUSTOM_LOOP, MODEL_ONLY),
    (HOST_FED, MODEL_ONLY),
    (BASELINE, INPUT_ONLY),
)


def impossible(case: Case, time: StepTime) -> Iterator[Finding]:
    """Yield a finding for each measurement that cannot be: faster than its own ceiling, the link, or at all."""
    for variant, ceiling in _CEILINGS:
        lower, upper = case.variants.get(variant), case.variants.get(ceiling)
        if lower is None or upper is None:
            continue
        slowest, fastest = min(_windows(case, variant)), max(_windows(case, ceiling))
        if slowest > fastest * (1 + TOLERANCE):
            yield _finding(case, lower.throughput.median / upper.throughput.median - 1.0, variant, ceiling)
    rate, link = copy_rate(case, time), link_rate(case)
    if rate is not None and link is not None and rate > link * (1 + TOLERANCE):
        yield _finding(case, rate / link - 1.0, bytes_per_s=rate, link_bytes_per_s=link)
    if any(summary.throughput.median > SAMPLES_PER_S for summary in case.variants.values()):
        yield _finding(case, 1.0)


def _windows(case: Case, variant: str) -> list[float]:
    """Return samples/s of all windows: a single trial has no interval that says how much they differ."""
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
    """Return the bytes/s at which the copy part moves a batch; None where either is not known."""
    size = case.metric(BASELINE, BATCH_BYTES)
    copy = time.parts.get(Part.COPY)
    if HOST_FED not in case.variants or size is None or copy is None or copy.high <= 0:
        return None
    # A copy that is hardly to be seen says nothing of its rate.
    return size / copy.high if copy.median > TOLERANCE * time.total.median else None


def link_rate(case: Case) -> float | None:
    """Return the bytes/s of a GPU's PCIe link in one direction; None where it is not known."""
    if not case.gpus or not case.run.manifest.gpus:
        return None
    gpu = case.run.manifest.gpus[0]
    lane = PCIE_LANE_BYTES_PER_S.get(gpu.pcie_gen or 0)
    return lane * gpu.pcie_width * len(case.gpus) if lane and gpu.pcie_width else None
