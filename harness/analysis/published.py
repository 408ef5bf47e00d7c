"""What was measured beside what was published, in the published unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.align import gpu_names
from harness.analysis.case import Case, device_activity
from harness.analysis.compare import CPU
from harness.model.analysis import Estimate, PublishedComparison, RatioKind, Summary
from harness.model.run import Run
from workloads.protocol import BASELINE, TUNED, Published, Workload

# More of these is better, of all other units less; shares are compared by themselves, not as a ratio.
SPEEDS = ("samples/s", "ratio", "requests ratio", "gain")
TIMES = ("s",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A measured value, and the variant that it comes from."""

    value: Estimate | None
    variant: str


def published_comparisons(run: Run, cases: Sequence[Case]) -> tuple[PublishedComparison, ...]:
    """Return each published number beside this machine's.

    A number for a GPU stands beside every single GPU; one with nothing to match has measured None. Where
    the variant that does what was published did not run, the baseline stands in.
    """
    return tuple(
        compared
        for workload in run.workloads
        for number in workload.published
        for compared in _beside(workload, number, cases)
    )


def _beside(workload: Workload, number: Published, cases: Sequence[Case]) -> Iterator[PublishedComparison]:
    matches = [
        case
        for case in cases
        if case.name == workload.name and BASELINE in case.variants and _same_kind(number.device, case.device)
    ]
    for case in matches:
        yield _comparison(workload, case.device, number, _in_unit(number, case))
    if not matches:
        yield _comparison(workload, number.device, number, _Measured(value=None, variant=number.variant))


def _same_kind(published: str, device: str) -> bool:
    return device == CPU if published == CPU else len(gpu_names(device)) == 1


def _in_unit(number: Published, case: Case) -> _Measured:
    variant = number.variant if number.variant in case.variants else BASELINE
    summary = case.variants[variant]
    value: Estimate | None = None
    if number.unit == "s":
        value = summary.training_s
    elif number.unit == "samples/s":
        value = summary.throughput
    elif number.unit == "ratio":
        value = case.ratio(RatioKind.GPU_OVER_CPU, variant)
    elif number.unit == "requests ratio":
        value = case.ratio(RatioKind.REQUESTS_GPU_OVER_CPU, variant)
    elif number.unit == "gain":
        value = case.ratio(RatioKind.OVER_BASELINE, TUNED)
    elif number.unit == "accuracy":
        value = _single(summary.accuracy, summary)
    elif number.unit == "utilisation":
        value = _single(device_activity(case, variant), summary)
    return _Measured(value=value, variant=variant)


def _single(value: float | None, summary: Summary) -> Estimate | None:
    """Return a median of trials that comes without an interval."""
    if value is None:
        return None
    return Estimate(median=value, low=value, high=value, n=1, unit="share")


def _comparison(
    workload: Workload, device: str, number: Published, measured: _Measured
) -> PublishedComparison:
    return PublishedComparison(
        workload=workload.name,
        device=device,
        source=number.source,
        system=number.system,
        value=number.value,
        upto=number.upto,
        unit=number.unit,
        note=number.note,
        measured=measured.value,
        measured_variant=measured.variant,
        factor=_factor(number, measured.value),
        other_variant=measured.value is not None and measured.variant != number.variant,
    )


def _factor(number: Published, measured: Estimate | None) -> Estimate | None:
    """Return measured over published as a speed; with a range its nearer end counts, and 1 within it."""
    if measured is None or number.unit not in (*SPEEDS, *TIMES) or measured.median <= 0 or number.value <= 0:
        return None
    nearest = min(max(measured.median, number.value), max(number.upto, number.value))
    if number.unit in TIMES:
        low, median, high = nearest / measured.high, nearest / measured.median, nearest / measured.low
    else:
        low, median, high = (value / nearest for value in (measured.low, measured.median, measured.high))
    return Estimate(median=median, low=low, high=high, n=measured.n, unit="ratio")
