"""What a reader must know before trusting the numbers: typed facts about the run, its trials and its trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.measures import Key, Measures
from harness.analysis.stats import drift, half_width, outliers
from harness.model.analysis import Caveat, CaveatKind, Severity, Summary
from harness.model.run import Run, Status
from workloads.protocol import BASELINE, TUNED

NOTE, WARNING = Severity.NOTE, Severity.WARNING
# Half width over median: what a comparison of two machines can still tell apart.
WIDE = 0.05
FEW_TRIALS = 3
# A trend is reported when chance gives it in under 5 % of cases and it is worth more than 2 %.
DRIFT_P, DRIFT_CHANGE = 0.05, 0.02
MISSED_TICKS = 0.01


def run_caveats(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Caveat]:
    """Yield what is to be known of the run as a whole: profile, isolation, missing trials, data, telemetry."""
    if run.tried_out:
        yield Caveat(kind=CaveatKind.SMOKE, severity=WARNING)
    if not run.manifest.engine.isolated:
        yield Caveat(kind=CaveatKind.NOT_ISOLATED, severity=WARNING, text=run.manifest.engine.name)
    changed = run.manifest.options.fixed_params
    if changed:
        text = ", ".join(f"{name}={value}" for name, value in changed.items())
        yield Caveat(kind=CaveatKind.PARAMETERS, severity=WARNING, text=text)
    yield from _trials(run)
    yield from _precision(summaries)
    yield from _stability(found)
    for data in run.manifest.data:
        if data.kind != "real":
            yield Caveat(kind=CaveatKind.DATA, severity=NOTE, subject=data.workload, text=data.kind)
    yield from _telemetry(run)
    for text in run.manifest.warnings:
        yield Caveat(kind=CaveatKind.RUN_WARNING, severity=WARNING, text=text)
    for trial in run.trials:
        for text in trial.warnings:
            subject = f"{trial.workload} on {trial.device}"
            yield Caveat(kind=CaveatKind.WORKLOAD_WARNING, severity=NOTE, subject=subject, text=text)


def _trials(run: Run) -> Iterator[Caveat]:
    failed: dict[tuple[str, str, Status], list[str]] = {}
    for trial in run.trials:
        if trial.status is not Status.OK:
            failed.setdefault((trial.workload, trial.device, trial.status), []).append(trial.message)
    for (workload, device, status), messages in failed.items():
        yield Caveat(
            kind=CaveatKind.FAILED_TRIALS,
            severity=WARNING,
            subject=f"{workload} on {device}",
            value=float(len(messages)),
            text=f"{status.value}. {messages[0]}".strip(),
        )
    begun = {(trial.workload, trial.device) for trial in run.trials}
    for workload, device in dict.fromkeys((trial.workload, trial.device) for trial in run.planned):
        if (workload, device) not in begun:
            yield Caveat(kind=CaveatKind.NOT_MEASURED, severity=WARNING, subject=f"{workload} on {device}")


def _precision(summaries: Sequence[Summary]) -> Iterator[Caveat]:
    for summary in summaries:
        if summary.variant not in (BASELINE, TUNED):
            continue
        subject = f"{summary.workload} on {summary.device}, {summary.variant}"
        width = half_width(summary.throughput)
        if summary.throughput.n < FEW_TRIALS:
            kind, value = CaveatKind.FEW_TRIALS, float(summary.throughput.n)
        elif width is not None and width > WIDE:
            kind, value = CaveatKind.WIDE_INTERVAL, width
        else:
            continue
        yield Caveat(kind=kind, severity=WARNING, subject=subject, value=value)


def _stability(found: Measures) -> Iterator[Caveat]:
    for key, group in found.items():
        if key.variant not in (BASELINE, TUNED):
            continue
        values = [measure.throughput for measure in group]
        trend = drift(values)
        if trend is not None and trend.p < DRIFT_P and abs(trend.change) > DRIFT_CHANGE:
            yield Caveat(kind=CaveatKind.DRIFT, severity=WARNING, subject=_subject(key), value=trend.change)
        for position in outliers(values):
            trial = group[position].trial.id
            yield Caveat(kind=CaveatKind.OUTLIER, severity=NOTE, subject=_subject(key), text=trial)


def _subject(key: Key) -> str:
    return f"{key.workload} on {key.device}, {key.variant}"


def _telemetry(run: Run) -> Iterator[Caveat]:
    ticks = sum(trial.sampling.get("ticks", 0.0) for trial in run.trials)
    missed = sum(trial.sampling.get("missed_ticks", 0.0) for trial in run.trials)
    if ticks and missed / (ticks + missed) > MISSED_TICKS:
        yield Caveat(kind=CaveatKind.MISSED_TICKS, severity=WARNING, value=missed / (ticks + missed))
    gaps = {(gap.source, gap.reason): None for trial in run.trials for gap in trial.gaps}
    for source, reason in gaps:
        yield Caveat(kind=CaveatKind.TELEMETRY_GAP, severity=NOTE, subject=source, text=reason)
