"""Caveats about the machine itself: its clocks, GPUs and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.align import increase
from harness.analysis.caveats import NOTE, WARNING
from harness.model.analysis import Caveat, CaveatKind, Summary
from harness.model.run import Run, Status, Trial
from workloads.protocol import BASELINE

STEAL_PCT = 1.0
_OF_GPUS = {
    "foreign_processes": CaveatKind.FOREIGN_PROCESSES,
    "xid_errors": CaveatKind.XID_ERRORS,
    "ecc_uncorrected": CaveatKind.ECC_ERRORS,
}


def machine_caveats(run: Run, summaries: Sequence[Summary]) -> Iterator[Caveat]:
    """Yield what is to be known of the machine while it measured."""
    yield from _steal(summaries)
    yield from _clocks(run)
    yield from _settings(run)
    for trial in run.trials:
        yield from _foreign(trial)


def _steal(summaries: Sequence[Summary]) -> Iterator[Caveat]:
    steal = max(
        (
            value
            for summary in summaries
            if summary.variant == BASELINE
            for key, value in summary.telemetry.items()
            if key.endswith(".cpu_steal_pct")
        ),
        default=0.0,
    )
    if steal > STEAL_PCT:
        yield Caveat(kind=CaveatKind.STEAL, severity=WARNING, value=steal / 100)


def _foreign(trial: Trial) -> Iterator[Caveat]:
    for series in trial.telemetry:
        for metric, kind in _OF_GPUS.items():
            values = series.columns.get(metric)
            if values is None or not np.isfinite(values).any():
                continue
            finite = values[np.isfinite(values)]
            # Errors are counters: those from before the trial are none of its own.
            before = 0.0 if kind is CaveatKind.FOREIGN_PROCESSES else float(finite[0])
            if float(finite.max()) > before:
                yield Caveat(kind=kind, severity=WARNING, subject=series.device)


def _settings(run: Run) -> Iterator[Caveat]:
    for position, gpu in enumerate(run.manifest.gpus):
        subject = f"gpu{position}"
        limit, default = gpu.power_limit_w, gpu.power_default_limit_w
        if limit is not None and default is not None and limit < default:
            yield Caveat(
                kind=CaveatKind.POWER_LIMIT,
                severity=WARNING,
                subject=subject,
                value=limit,
                text=f"{default:.0f}",
            )
        if gpu.mig_enabled:
            yield Caveat(kind=CaveatKind.MIG, severity=NOTE, subject=subject)


def _clocks(run: Run) -> Iterator[Caveat]:
    governor = run.manifest.host_facts.get("cpu_governor")
    if isinstance(governor, str) and governor != "performance":
        yield Caveat(kind=CaveatKind.GOVERNOR, severity=NOTE, text=governor)
    for trial in run.trials:
        subject = f"{trial.workload} on {trial.device}"
        if any(
            not trial.started_ns <= window.start_ns <= window.end_ns <= trial.ended_ns
            for window in trial.windows
        ):
            yield Caveat(kind=CaveatKind.CLOCKS_APART, severity=WARNING, subject=subject)
        if trial.status is Status.OK and _cores_throttled(trial):
            yield Caveat(kind=CaveatKind.CPU_THROTTLED, severity=WARNING)


def _cores_throttled(trial: Trial) -> bool:
    series = next((each for each in trial.telemetry if "cpu_throttle_events" in each.columns), None)
    if series is None or not trial.windows:
        return False
    end_ns = max(window.end_ns for window in trial.windows)
    whole = replace(min(trial.windows, key=lambda window: window.start_ns), end_ns=end_ns)
    return bool(increase(series.t_ns, series.columns["cpu_throttle_events"], (whole,))[0] > 0)
