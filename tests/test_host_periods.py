"""Slow periods of the host are told from slow workloads, repeated and said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.trial_measures import host_speeds, slow_trials
from harness.defaults import PROFILES
from harness.model.analysis import CaveatKind
from harness.model.run import Metric, PlannedTrial, Run, Trial
from harness.run.runner import Stopping
from reports import messages
from tests import builders
from workloads.protocol import BASELINE, PROBES


def probed(trial: Trial, speed: float) -> Trial:
    """Return a trial whose host ran at this share of its usual speed; its windows are as much longer."""
    rates = dict(zip(PROBES, (5000.0, 120.0, 90_000.0), strict=True))
    metrics = (
        Metric(variant="", name=name, value=rate * speed) for name, rate in rates.items() for _ in "12"
    )
    windows = tuple(replace(each, samples=round(each.samples * speed)) for each in trial.windows)
    return replace(trial, metrics=(*trial.metrics, *metrics), windows=windows)


def run_with(speeds: list[float]) -> Run:
    run = builders.cpu_run(trials=len(speeds))
    return replace(run, trials=tuple(map(probed, run.trials, speeds)))


def test_a_trial_in_a_slow_period_does_not_count_and_that_is_said() -> None:
    quiet, disturbed = run_with([1.0, 1.01, 0.99, 1.0]), run_with([1.0, 1.01, 0.7, 1.0])
    (name,) = slow_trials(disturbed.trials)
    assert name == disturbed.trials[2].id
    (before,), (after,) = (
        [each for each in analyse(run).summaries if each.variant == BASELINE] for run in (quiet, disturbed)
    )
    assert (before.throughput.n, after.throughput.n) == (4, 3)
    assert after.throughput.median == pytest.approx(before.throughput.median, rel=0.03)
    (caveat,) = (each for each in analyse(disturbed).caveats if each.kind is CaveatKind.SLOW_PERIOD)
    assert caveat.value == pytest.approx(0.3, abs=0.02)
    assert "30" in messages.caveat_lines([caveat], notes=False)[0][0]


def test_slow_workloads_on_a_steady_host_count() -> None:
    run = run_with([1.0, 1.0, 1.0, 1.0])
    slower = tuple(
        replace(each, samples=each.samples // 2) if position == 2 else each
        for position, each in enumerate(run.trials[2].windows)
    )
    run = replace(run, trials=(*run.trials[:2], replace(run.trials[2], windows=slower), run.trials[3]))
    assert slow_trials(run.trials) == {}


@pytest.mark.parametrize(
    ("speeds", "left_out"),
    [([1.0, 0.7, 1.0], 0), ([1, 0.7, 0.6, 1, 1, 1], 2), ([1, 1, 1, 1, 0.6, 0.6, 0.6], 2), ([1.0, 0.5], 0)],
)
def test_enough_trials_remain(speeds: list[float], left_out: int) -> None:
    assert len(slow_trials(run_with(speeds).trials)) == left_out


def test_old_runs_have_no_probe() -> None:
    assert host_speeds(builders.cpu_run().trials) == {}


def test_the_trial_is_repeated_at_most_twice() -> None:
    profile = replace(PROFILES["quick"], target_interval=1.0)
    run = run_with([1.0, 0.7, 1.0, 1.0, 1.0, 1.0])
    stopping = Stopping(profile)
    ran = []
    for index, trial in enumerate(run.trials):
        planned = PlannedTrial(
            id=trial.id, workload=trial.workload, device=trial.device, index=index, variants=(BASELINE,)
        )
        if stopping.should_run(planned):
            stopping.add(planned, trial)
            ran.append(index)
    assert ran == [0, 1, 2, 3], (
        "one slow trial of three is repeated once, although its interval is narrow enough"
    )
