"""Compare measured with published numbers, in the published unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.case import Case
from harness.analysis.utilisation import device_activity
from harness.model.analysis import Estimate, PublishedComparison, RatioKind
from harness.model.device import device_kind, positions
from harness.model.run import Run
from harness.model.workload import Published, Workload
from workloads.variants import TUNED

# Units in which higher and lower is better. Numbers in other units (shares) get no factor.
SPEEDS = ("samples/s", "ratio", "requests ratio", "gain")
TIMES = ("s",)


def published_comparisons(run: Run, cases: Sequence[Case]) -> tuple[PublishedComparison, ...]:
    """Return each published number with the corresponding measurement.

    A number for a GPU is compared with each single GPU. If its variant did not run on such a device, `measured`
    is None.
    """
    return tuple(
        compared
        for workload in run.workloads
        for number in workload.published
        for compared in _compared(workload, number, cases)
    )


def _compared(workload: Workload, number: Published, cases: Sequence[Case]) -> Iterator[PublishedComparison]:
    matches = [
        case
        for case in cases
        if case.name == workload.name
        and number.variant in case.variants
        and device_kind(case.device) == number.device
        and len(positions(case.device)) < 2
    ]
    for case in matches or (None,):
        measured = _in_unit(number, case, number.variant) if case else None
        yield PublishedComparison(
            workload=workload.name,
            device=case.device if case else number.device,
            number=number,
            measured=measured,
            factor=_factor(number, measured),
        )


def _in_unit(number: Published, case: Case, variant: str) -> Estimate | None:
    result = case.variants[variant]
    match number.unit:
        case "s":
            return result.training_s
        case "samples/s":
            return result.throughput
        case "ratio":
            return case.ratio(RatioKind.GPU_OVER_CPU, variant)
        case "requests ratio":
            return case.ratio(RatioKind.REQUESTS_GPU_OVER_CPU, variant)
        case "gain":
            return case.ratio(RatioKind.OVER_BASELINE, TUNED)
        case "accuracy":
            return _single(result.accuracy)
        case "utilisation":
            return _single(device_activity(case, variant))
    return None


def _single(value: float | None) -> Estimate | None:
    return None if value is None else Estimate.exact(value, "share")


def _factor(number: Published, measured: Estimate | None) -> Estimate | None:
    """Return measured / published speed; for a range, against the nearer end, and 1 inside the range."""
    if measured is None or number.unit not in (*SPEEDS, *TIMES) or measured.median <= 0 or number.value <= 0:
        return None
    nearest = min(max(measured.median, number.value), max(number.upto, number.value))
    if number.unit in TIMES:
        return measured.map(lambda value: nearest / value, "ratio")
    return measured.map(lambda value: value / nearest, "ratio")
