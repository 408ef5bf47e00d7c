"""The overview of a run, one row per workload, for the page, Markdown and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.analysis import (
    Analysis,
    Estimate,
    Finding,
    Key,
    PublishedComparison,
    RatioKind,
    StepTime,
    find_by_key,
)
from harness.model.run import CPU, Run
from reports import numbers
from reports.names import devices_of
from workloads.protocol import BASELINE, TUNED, Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload on one device.

    Attributes:
        name: the workload, with the device if it ran on several besides the CPU.
        bound_s: the latency bound of a workload that serves requests; its speeds are requests/s within it.
        baseline, tuned: samples/s.
        changes: of tuned from the baseline.
        cpu: the baseline's samples/s on the CPU; None if `device` is the CPU or the CPU was not measured.
        over_cpu, tuned_over_cpu: speed on `device` / speed on the CPU, for baseline and tuned.
        scaling, tuned_scaling: speed per GPU / speed of a single GPU.
        gain: tuned / baseline.
        published: the published speed or time to show with the baseline.
    """

    name: str
    workload: str
    device: str
    bound_s: float | None
    baseline: Estimate | None
    tuned: Estimate | None
    changes: tuple[Change, ...]
    cpu: Estimate | None
    over_cpu: Estimate | None
    tuned_over_cpu: Estimate | None
    scaling: Estimate | None
    tuned_scaling: Estimate | None
    gain: Estimate | None
    step_time: StepTime | None
    finding: Finding | None
    published: PublishedComparison | None


def description(run: Run) -> list[str]:
    """Return driver, framework, engine, profile, time and duration of a run in a few words each."""
    manifest = run.manifest
    words = (
        f"driver {manifest.gpus[0].driver_version}" if manifest.gpus else "",
        run.framework,
        manifest.engine.name,
        manifest.profile.name,
        numbers.when(manifest.created),
        numbers.duration(run.duration_s) if run.trials else "",
        f"rerun of {manifest.rerun_of}" if manifest.rerun_of else "",
    )
    return [word for word in words if word]


def rows(analysis: Analysis) -> tuple[Row, ...]:
    """Return a row for each workload and GPU device, and for each workload that ran only on the CPU."""
    names = devices_of(analysis)
    pairs = list(dict.fromkeys((each.workload, each.device) for each in analysis.summaries))
    on_gpu = Counter(workload for workload, device in pairs if device != CPU)
    return tuple(
        _row(
            analysis,
            workload,
            device,
            name=f"{workload} ({names[device]})" if on_gpu[workload] > 1 else workload,
        )
        for workload, device in pairs
        if device != CPU or workload not in on_gpu
    )


def _row(analysis: Analysis, workload: str, device: str, *, name: str) -> Row:
    baseline, tuned = (Key(workload, device, variant) for variant in (BASELINE, TUNED))
    optimized = find_by_key(analysis.summaries, tuned)
    served = find_by_key(analysis.capacities, baseline)
    over_cpu = RatioKind.REQUESTS_GPU_OVER_CPU if analysis.serves(workload) else RatioKind.GPU_OVER_CPU
    return Row(
        name=name,
        workload=workload,
        device=device,
        bound_s=served.bound_s if served else None,
        baseline=analysis.speed(baseline),
        tuned=analysis.speed(tuned),
        changes=optimized.changes if optimized else (),
        cpu=analysis.speed(baseline._replace(device=CPU)) if device != CPU else None,
        over_cpu=analysis.ratio(over_cpu, baseline),
        tuned_over_cpu=analysis.ratio(over_cpu, tuned),
        scaling=analysis.ratio(RatioKind.SCALING, baseline),
        tuned_scaling=analysis.ratio(RatioKind.SCALING, tuned),
        gain=analysis.gain(tuned),
        step_time=find_by_key(analysis.step_times, baseline),
        finding=analysis.limit(workload, device),
        published=next(
            (
                each
                for each in analysis.published
                if (each.workload, each.device) == (workload, device)
                and each.measured_variant == BASELINE
                and each.factor is not None
                and each.is_time_or_speed
            ),
            None,
        ),
    )


def first_fix(overview: Sequence[Row]) -> tuple[Row, Finding] | None:
    """Return the row with the largest gain of a fix, measured or else predicted; None if no fix gains."""
    fixable = [(row, row.finding) for row in overview if row.finding and _gain(row.finding) > 1]
    return max(fixable, key=lambda each: _gain(each[1]), default=None)


def _gain(finding: Finding) -> float:
    return finding.remedy.gain.median if finding.remedy else finding.gain or 1.0
