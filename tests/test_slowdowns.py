from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.host_periods import slow_trials
from harness.cli.shared_options import _PARSERS
from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.model.analysis import Cause, CaveatKind
from harness.model.run import Metric, Options, PlannedTrial, Run, Trial
from harness.model.workload import Workload
from harness.run.plan import soak_trials
from harness.run.runner import Stopping
from harness.run.trial_container import spec_for
from reports import machine, messages
from reports.figures import figures_of
from tests import builders
from workloads.protocol import BASELINE, PROBES, SOAK


def lowered(share: float, column: str, mhz: float) -> Run:
    """Return a run whose GPU was lowered to `mhz` by a reason that NVML gave for a share of the readings."""
    run = builders.gpu_run(trials=1)

    def planted(series):
        if series.source != "nvml":
            return series
        active = np.arange(len(series.t_ns)) % 100 < 100 * share
        return replace(series, columns={
            **series.columns, column: active.astype(float), "sm_clock_mhz": np.full(len(series.t_ns), mhz),
        })  # fmt: skip

    trials = (replace(trial, telemetry=tuple(map(planted, trial.telemetry))) for trial in run.trials)
    return replace(run, trials=tuple(trials))


@pytest.mark.parametrize(
    ("column", "cause"),
    [
        ("throttle_sw_power_cap", Cause.POWER),
        ("throttle_sw_thermal", Cause.HEAT),
        ("throttle_hw_thermal", Cause.HEAT),
        ("throttle_hw_slowdown", Cause.HARDWARE),
    ],
)
def test_every_variant_says_what_lowered_its_clock(column, cause):
    analysis = analyse(lowered(1.0, column, 1200.0))
    slowed = {each.variant: each for each in analysis.clocks if each.device == "gpu0"}
    assert set(slowed) == set(builders.LAUNCH_BOUND)
    for each in slowed.values():
        assert each.slowed == {cause: 1.0}
        assert each.share == pytest.approx(1200 / 1980)
    said = [each.variant for each in analysis.caveats if each.kind is CaveatKind.THROTTLED]
    assert set(said) == set(builders.LAUNCH_BOUND)


@pytest.mark.parametrize(
    ("share", "column", "mhz"), [(0.0, "throttle_sw_thermal", 1200.0), (1.0, "throttle_sw_power_cap", 1975.0)]
)
def test_a_reason_without_loss_is_not_said(share, column, mhz):
    analysis = analyse(lowered(share, column, mhz))
    assert not any(each.slowed for each in analysis.clocks)
    assert CaveatKind.THROTTLED not in {each.kind for each in analysis.caveats}


def test_a_device_that_heats_up_is_told_from_its_cold_self():
    speeds = np.concatenate([np.full(40, 700.0), np.linspace(700, 600, 40), np.full(120, 600.0)])
    analysis = analyse(builders.soaked_run(speeds))
    (result,) = analysis.endurance
    assert result.device == "gpu0"
    assert result.cold == pytest.approx(700e12, rel=0.01)
    assert result.sustained == pytest.approx(600e12, rel=0.01)
    assert 65 < result.steady_s < 80
    assert result.telemetry["power_instant_w"] == pytest.approx(690, abs=3)
    assert set(result.telemetry) == {"sm_clock_mhz", "power_instant_w", "temperature_c"}
    assert "(86\u202f%)" in machine.sustained(result)
    assert figures_of(analysis)["figure-soak-gpu0"].soak


@pytest.mark.parametrize(
    ("speeds", "steady"), [(np.full(60, 500.0), True), (np.linspace(700, 300, 60), False)]
)
def test_steady_from_the_start_or_never(speeds, steady):
    (result,) = analyse(builders.soaked_run(speeds)).endurance
    assert (result.steady_s == 0) is steady
    assert (result.steady_s is None) is not steady


def test_too_short_a_load_says_nothing():
    assert analyse(builders.soaked_run(np.full(8, 500.0))).endurance == ()


def test_each_device_is_saturated_alone_for_so_long():
    planned = soak_trials(("cpu", "gpu0", "gpu0+gpu1"), 600.0)
    assert [(each.device, each.variants) for each in planned] == [
        ("cpu", (SOAK,)), ("gpu0", (SOAK,)), ("gpu1", (SOAK,)),
    ]  # fmt: skip
    spec = spec_for(planned[0], Workload(name="any"), PROFILES["quick"], Options(), folder="", data={})
    assert (spec.soak_s, spec.windows) == (600.0, 600)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("45", 45)])
def test_times_have_units(text, seconds):
    assert _PARSERS["soak_s"][1](text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5s", "ten", "-1m", "nan", "99h"])
def test_other_times_are_refused(text):
    with pytest.raises(UsageError, match="--soak"):
        _PARSERS["soak_s"][1](text)


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
