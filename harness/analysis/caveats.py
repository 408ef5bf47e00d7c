"""What a reader must know before trusting the numbers: typed facts about the run, its trials and its trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.measures import Measures
from harness.analysis.stats import drift
from harness.model.analysis import Caveat, CaveatKind, Key, Severity, Summary
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
    """Yield what is to be known of the run as a whole: parameters, trials, data, telemetry."""
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


def _precision(summaries: Sequence[Summary]) -> Iterator[Caveat]:
    for summary in summaries:
        if summary.variant not in (BASELINE, TUNED):
            continue
        width = summary.throughput.half_width
        if summary.throughput.n < FEW_TRIALS:
            kind, value = CaveatKind.FEW_TRIALS, float(summary.throughput.n)
        elif width is not None and width > WIDE:
            kind, value = CaveatKind.WIDE_INTERVAL, width
        else:
            continue
        yield Caveat(kind=kind, severity=WARNING, subject=_subject(summary.key), value=value)


def _stability(found: Measures) -> Iterator[Caveat]:
    for key, group in found.items():
        if key.variant not in (BASELINE, TUNED):
            continue
        values = [measure.throughput for measure in group]
        trend = drift(values)
        if trend is not None and trend.p < DRIFT_P and abs(trend.change) > DRIFT_CHANGE:
            yield Caveat(kind=CaveatKind.DRIFT, severity=WARNING, subject=_subject(key), value=trend.change)


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
