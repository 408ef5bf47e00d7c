"""Caveats about a run and its trials, as typed facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.host_periods import slow_trials
from harness.analysis.stats import drift
from harness.analysis.throttling import throttling_caveats
from harness.analysis.trial_measures import Measures
from harness.model.analysis import MIN_TRIALS, RELIABLE_WIDTH, Caveat, CaveatKind, Clocks, Summary
from harness.model.run import Run, Status, Trial
from workloads.protocol import BASELINE, TUNED

# A trend is reported if it is significant at 5 % and larger than 2 %.
DRIFT_P, DRIFT_CHANGE = 0.05, 0.02
MAX_MISSED_TICKS = 0.01
MAX_STEAL_PCT = 1.0
_GPU_EVENTS = {
    "foreign_processes": CaveatKind.FOREIGN_PROCESSES,
    "xid_errors": CaveatKind.XID_ERRORS,
    "ecc_uncorrected": CaveatKind.ECC_ERRORS,
}


def caveats(
    run: Run, measured: Measures, summaries: Sequence[Summary], clocks: Sequence[Clocks]
) -> tuple[Caveat, ...]:
    """Return the caveats of a run and its machine without duplicates, warnings before notes."""
    groups = (
        _setup(run), _trials(run), _slow_periods(run), _precision(summaries), _stability(measured), _telemetry(run),
        _host(summaries), throttling_caveats(clocks), _clocks(run), _gpu_settings(run), *map(_gpu_events, run.trials),
    )  # fmt: skip
    distinct = dict.fromkeys(caveat for group in groups for caveat in group)
    return tuple(sorted(distinct, key=lambda caveat: caveat.is_note))


def _setup(run: Run) -> Iterator[Caveat]:
    changed = run.manifest.options.fixed_params
    if changed:
        text = ", ".join(f"{name}={value}" for name, value in changed.items())
        yield Caveat(kind=CaveatKind.PARAMETERS, text=text)
    for data in run.manifest.data:
        if data.kind != "real":
            yield Caveat(kind=CaveatKind.DATA, workload=data.workload, text=data.kind)
    for trial in run.trials:
        for text in trial.warnings:
            kind = CaveatKind.WORKLOAD_WARNING
            yield Caveat(kind=kind, workload=trial.workload, device=trial.device, text=text)


def _trials(run: Run) -> Iterator[Caveat]:
    failed = Counter(
        (trial.workload, trial.device, f"{trial.status.value}. {trial.message}".strip())
        for trial in run.trials
        if trial.failed
    )
    for (workload, device, text), count in failed.items():
        yield Caveat(
            kind=CaveatKind.FAILED_TRIALS, workload=workload, device=device, value=float(count), text=text
        )


def _slow_periods(run: Run) -> Iterator[Caveat]:
    ended = {trial.id: trial for trial in run.trials if trial.status is Status.OK}
    for name, share in slow_trials(ended.values()).items():
        trial = ended[name]
        yield Caveat(
            kind=CaveatKind.SLOW_PERIOD, workload=trial.workload, device=trial.device, value=1 - share
        )


def _precision(summaries: Sequence[Summary]) -> Iterator[Caveat]:
    for summary in summaries:
        if summary.variant not in (BASELINE, TUNED):
            continue
        width = summary.throughput.half_width
        if summary.throughput.n < MIN_TRIALS:
            kind, value = CaveatKind.FEW_TRIALS, float(summary.throughput.n)
        elif width is not None and width > RELIABLE_WIDTH:
            kind, value = CaveatKind.WIDE_INTERVAL, width
        else:
            continue
        yield Caveat(kind=kind, **summary.key._asdict(), value=value)


def _stability(measured: Measures) -> Iterator[Caveat]:
    for key, group in measured.items():
        if key.variant not in (BASELINE, TUNED):
            continue
        values = [measure.throughput for measure in group]
        trend = drift(values)
        if trend is not None and trend.p < DRIFT_P and abs(trend.change) > DRIFT_CHANGE:
            yield Caveat(kind=CaveatKind.DRIFT, **key._asdict(), value=trend.change)


def _telemetry(run: Run) -> Iterator[Caveat]:
    ticks = sum(trial.sampling.get("ticks", 0.0) for trial in run.trials)
    missed = sum(trial.sampling.get("missed_ticks", 0.0) for trial in run.trials)
    if ticks and missed / (ticks + missed) > MAX_MISSED_TICKS:
        yield Caveat(kind=CaveatKind.MISSED_TICKS, value=missed / (ticks + missed))
    gaps = {(gap.source, gap.reason): None for trial in run.trials for gap in trial.gaps}
    for source, reason in gaps:
        yield Caveat(kind=CaveatKind.TELEMETRY_GAP, source=source, text=reason)


def _host(summaries: Sequence[Summary]) -> Iterator[Caveat]:
    steal, throttled = (
        max(
            (value for each in summaries for key, value in each.telemetry.items() if key.endswith(metric)),
            default=0.0,
        )
        for metric in (".cpu_steal_pct", ".cpu_throttle_events_per_s")
    )
    if steal > MAX_STEAL_PCT:
        yield Caveat(kind=CaveatKind.STEAL, value=steal / 100)
    if throttled > 0:
        yield Caveat(kind=CaveatKind.CPU_THROTTLED)


def _gpu_events(trial: Trial) -> Iterator[Caveat]:
    for series in trial.telemetry:
        for metric, kind in _GPU_EVENTS.items():
            values = series.columns.get(metric)
            if values is None or not np.isfinite(values).any():
                continue
            finite = values[np.isfinite(values)]
            # Errors are counters that may start above zero.
            before = 0.0 if kind is CaveatKind.FOREIGN_PROCESSES else float(finite[0])
            if float(finite.max()) > before:
                yield Caveat(kind=kind, device=series.device)


def _gpu_settings(run: Run) -> Iterator[Caveat]:
    for position, gpu in enumerate(run.manifest.gpus):
        device = f"gpu{position}"
        limit, default = gpu.power_limit_w, gpu.power_default_limit_w
        if limit is not None and default is not None and limit < default:
            yield Caveat(kind=CaveatKind.POWER_LIMIT, device=device, value=limit, text=f"{default:.0f}")
        if gpu.mig_enabled:
            yield Caveat(kind=CaveatKind.MIG, device=device)


def _clocks(run: Run) -> Iterator[Caveat]:
    governor = run.manifest.host_facts.get("cpu_governor")
    if isinstance(governor, str) and governor != "performance":
        yield Caveat(kind=CaveatKind.GOVERNOR, text=governor)
    for trial in run.trials:
        if any(
            not trial.started_ns <= window.start_ns <= window.end_ns <= trial.ended_ns
            for window in trial.windows
        ):
            yield Caveat(kind=CaveatKind.CLOCKS_APART, workload=trial.workload, device=trial.device)
