"""What knowing costs: how long trials ran the benchmark's own variants, and those that serve the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from harness.model.analysis import Spent
from harness.model.run import Run, Status, Trial
from workloads.protocol import measures_speed


def spent(run: Run) -> tuple[Spent, ...]:
    """Return where the time of trials that went well passed, by workload and device, in the run's order.

    A variant's time is that of all its phases: building, first step, warm-up, windows and evaluation. Trials of a
    sweep, and those whose phases are not known, are left out.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in run.trials:
        if trial.status is Status.OK and not trial.point and any(phase.variant for phase in trial.phases):
            groups.setdefault((trial.workload, trial.device), []).append(trial)
    return tuple(_of(workload, device, trials) for (workload, device), trials in groups.items())


def _of(workload: str, device: str, trials: Sequence[Trial]) -> Spent:
    own = [_seconds(trial, _of_benchmark(trial)) for trial in trials]
    verdict = [
        _seconds(trial, {phase.variant for phase in trial.phases} - _of_benchmark(trial)) for trial in trials
    ]
    whole = [(trial.ended_ns - trial.started_ns) / 1e9 for trial in trials]
    ratios = [known / alone for known, alone in zip(verdict, own, strict=True) if alone > 0]
    return Spent(
        workload=workload,
        device=device,
        benchmark_s=median(own),
        verdict_s=median(verdict),
        rest_s=median(
            max(0.0, all_ - alone - known) for all_, alone, known in zip(whole, own, verdict, strict=True)
        ),
        ratio=median(ratios) if ratios else None,
        trials=len(trials),
    )


def _of_benchmark(trial: Trial) -> set[str]:
    """Return the variants that run with --no-analysis, and optimizations, which are asked for."""
    return {phase.variant for phase in trial.phases if measures_speed(phase.variant)}


def _seconds(trial: Trial, variants: Iterable[str]) -> float:
    chosen = set(variants) - {""}
    return sum(phase.end_ns - phase.start_ns for phase in trial.phases if phase.variant in chosen) / 1e9
