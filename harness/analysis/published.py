"""What was measured beside what was published, in the published unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.analysis.align import gpu_names
from harness.analysis.case import Case, activity, cases
from harness.analysis.compare import CPU, GPU_OVER_CPU, TUNED_OVER_BASELINE
from harness.analysis.requests import REQUESTS_GPU_OVER_CPU
from harness.analysis.why_published import reasons
from harness.model.analysis import Comparison, Estimate, PublishedComparison, Summary, Verdict
from harness.model.run import Run
from workloads.protocol import BASELINE, TUNED, Published, Workload

# More of these is better, of all other units less; shares are compared by themselves, not as a ratio.
SPEEDS = ("samples/s", "ratio", "requests ratio", "gain")
TIMES = ("s",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A measured value, what it is of, and the variant that it comes from."""

    value: Estimate | None
    label: str
    variant: str


def published_comparisons(
    run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison], verdicts: Sequence[Verdict]
) -> tuple[PublishedComparison, ...]:
    """Return each published number beside this machine's, with why they may differ.

    A number for a GPU stands beside every single GPU; one with nothing to match has measured None. Where
    the variant that does what was published did not run, baseline stands in, and the reasons say so.
    """
    measured = tuple(cases(run, summaries, ratios))
    return tuple(
        one
        for workload in run.workloads
        for number in workload.published
        for one in _beside(workload, number, measured, verdicts)
    )


def _beside(
    workload: Workload,
    number: Published,
    measured: Sequence[Case],
    verdicts: Sequence[Verdict],
) -> Iterator[PublishedComparison]:
    matches = [
        case
        for case in measured
        if case.name == workload.name and BASELINE in case.variants and _same_kind(number.device, case.device)
    ]
    for case in matches:
        found = _in_unit(number, case)
        one = _comparison(workload, case.device, number, found)
        yield replace(one, reasons=tuple(reasons(case, number, one, found.variant, verdicts)))
    if not matches:
        nothing = _Found(value=None, label="not measured in this run", variant="")
        yield _comparison(workload, number.device, number, nothing)


def _same_kind(published: str, device: str) -> bool:
    return device == CPU if published == CPU else len(gpu_names(device)) == 1


def _in_unit(number: Published, case: Case) -> _Found:
    variant = number.variant if number.variant in case.variants else BASELINE
    summary = case.variants[variant]
    what = f"{case.device} {variant.replace('-', ' ') if variant == BASELINE else variant}"
    if number.unit == "s":
        label = f"{what}, {summary.training_how}, cold start excluded"
        return _Found(value=summary.training_s, label=label, variant=variant)
    if number.unit == "samples/s":
        return _Found(value=summary.throughput, label=f"{what}, steady state", variant=variant)
    if number.unit == "ratio":
        value = case.ratio(GPU_OVER_CPU, variant)
        return _Found(value=value, label=f"{case.device} over cpu, baseline, steady speed", variant=variant)
    if number.unit == "requests ratio":
        value = case.ratio(REQUESTS_GPU_OVER_CPU, variant)
        label = (
            f"{case.device} over cpu, requests a second at the least latency bound that both keep to; "
            "a lower limit where the GPU keeps to a smaller one"
        )
        return _Found(value=value, label=label, variant=variant)
    if number.unit == "gain":
        value = case.ratio(TUNED_OVER_BASELINE, TUNED)
        return _Found(value=value, label=f"{case.device} tuned over baseline", variant=variant)
    if number.unit == "accuracy":
        label = f"{what}, on held-out data after what was measured"
        return _Found(value=_single(summary.accuracy, summary), label=label, variant=variant)
    if number.unit == "utilisation":
        busy = activity(case, variant)
        label = f"{what}, {busy[1]}" if busy else f"{what}: not available"
        return _Found(value=_single(busy[0] if busy else None, summary), label=label, variant=variant)
    return _Found(value=None, label=f"nothing measured in {number.unit}", variant=variant)


def _single(value: float | None, summary: Summary) -> Estimate | None:
    """Return a median of trials that comes without an interval."""
    if value is None:
        return None
    return Estimate(median=value, low=value, high=value, n=1, unit="share")


def _comparison(workload: Workload, device: str, number: Published, found: _Found) -> PublishedComparison:
    return PublishedComparison(
        workload=workload.name,
        device=device,
        source=number.source,
        system=number.system,
        value=number.value,
        upto=number.upto,
        unit=number.unit,
        note=number.note,
        measured=found.value,
        measured_label=found.label,
        factor=_factor(number, found.value),
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
