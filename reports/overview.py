"""The first screen: one row a workload, from which page, Markdown and terminal are written."""

from __future__ import annotations

from dataclasses import dataclass

from harness.analysis.compare import GPU_OVER_CPU, SCALING, TUNED_OVER_BASELINE
from harness.analysis.findings import primary
from harness.model.analysis import (
    Analysis,
    Comparison,
    Estimate,
    Finding,
    PublishedComparison,
    StepTime,
    Summary,
)
from reports.names import titles_of
from workloads.protocol import BASELINE, TUNED

CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload on one device beside the CPU.

    Attributes:
        cpu: the baseline's samples/s on the CPU; None where `device` is the CPU, or it was not measured.
        over_cpu: baseline on `device` over baseline on the CPU.
        scaling: several GPUs over as many times one.
        gain: of tuned over the baseline.
        published: those with a number to compare, of this device.
    """

    workload: str
    title: str
    device: str
    baseline: Summary | None
    cpu: Estimate | None
    over_cpu: Estimate | None
    scaling: Estimate | None
    tuned: Summary | None
    gain: Estimate | None
    step_time: StepTime | None
    finding: Finding | None
    published: tuple[PublishedComparison, ...]


def rows(analysis: Analysis) -> tuple[Row, ...]:
    """Return a row for each workload and GPU device, and for workloads that ran on the CPU alone."""
    titles = titles_of(analysis)
    summaries = {(each.workload, each.device, each.variant): each for each in analysis.summaries}
    pairs = list(dict.fromkeys((each.workload, each.device) for each in analysis.summaries))
    on_gpu = {workload for workload, device in pairs if device != CPU}
    found = []
    for workload, device in pairs:
        if device == CPU and workload in on_gpu:
            continue
        cpu = summaries.get((workload, CPU, BASELINE)) if device != CPU else None
        found.append(
            Row(
                workload=workload,
                title=titles[workload],
                device=device,
                baseline=summaries.get((workload, device, BASELINE)),
                cpu=cpu.throughput if cpu else None,
                over_cpu=_ratio(analysis, GPU_OVER_CPU, workload, f"{device}/{BASELINE}"),
                scaling=_ratio(analysis, SCALING, workload, f"{device}/{TUNED}"),
                tuned=summaries.get((workload, device, TUNED)),
                gain=_ratio(analysis, TUNED_OVER_BASELINE, workload, f"{device}/{TUNED}"),
                step_time=step_time(analysis, workload, device, BASELINE),
                finding=primary(analysis.findings, workload, device),
                published=tuple(
                    each
                    for each in analysis.published
                    if (each.workload, each.device) == (workload, device) and each.factor is not None
                ),
            )
        )
    return tuple(found)


def step_time(analysis: Analysis, workload: str, device: str, variant: str) -> StepTime | None:
    """Return a breakdown, None where there is none."""
    return next(
        (
            each
            for each in analysis.step_times
            if (each.workload, each.device, each.variant) == (workload, device, variant)
        ),
        None,
    )


def _ratio(analysis: Analysis, kind: str, workload: str, numerator: str) -> Estimate | None:
    def matches(each: Comparison) -> bool:
        return (each.kind, each.workload, each.numerator) == (kind, workload, numerator)

    return next((each.ratio for each in analysis.comparisons if matches(each)), None)


def speed_factor(published: tuple[PublishedComparison, ...]) -> PublishedComparison | None:
    """Return the published speed or time to show beside a baseline; None where articles give neither."""
    return next((each for each in published if each.unit in ("samples/s", "s")), None)


def first_fix(analysis: Analysis) -> tuple[Row, Finding] | None:
    """Return the row whose fix gains most, as measured where it was measured; None where none gains."""
    fixable = [(row, row.finding) for row in rows(analysis) if row.finding is not None and row.finding.gain]
    return max(fixable, key=lambda each: expected_gain(each[1]), default=None)


def expected_gain(finding: Finding) -> float:
    """Return what a finding's remedy gained, else the predicted gain, else 1."""
    return finding.remedy.gain.median if finding.remedy else finding.gain or 1.0
