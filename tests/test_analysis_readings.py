"""Readings of a variant in one or several trials become speeds and ratios with intervals."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.ratios import Spreads, speed_ratio
from harness.analysis.trial_measures import Measure, measures, units
from harness.intervals import Spread
from harness.model.analysis import Key, RatioKind
from harness.model.run import Run, Status, Trial, VariantScript, Window
from tests.builders import cpu_run
from workloads.variants import BASELINE, MODEL_ONLY, TUNED, together

RUN = cpu_run(trials=1)
NAME = RUN.workloads[0].name
FIXES = ("fix:jit", "fix:cache")
COMBINED = together(FIXES)
SAMPLES = 1000


def trial_of(
    index: int, *read: tuple[str, float], fixes: Sequence[str] = FIXES, apart_s: float = 10.0
) -> Trial:
    """Return a trial with readings of one window in this order, as (variant, samples/s); tuned has these remedies."""
    windows = [
        Window(
            variant=variant, index=0, start_ns=round(number * apart_s * 1e9),
            end_ns=round((number * apart_s + SAMPLES / speed) * 1e9), steps=10, samples=SAMPLES, wait_ns=-1,
            reading=[name for name, _ in read[:number]].count(variant),
        )
        for number, (variant, speed) in enumerate(read)
    ]  # fmt: skip
    has_tuned = any(variant == TUNED for variant, _ in read)
    script = VariantScript(variant=TUNED, diff="", text="", fixes=tuple(fixes))
    return replace(
        RUN.trials[0], id=f"{NAME}.cpu.{index}", index=index, windows=tuple(windows), steps=(), metrics=(), phases=(),
        telemetry=(), scripts=(script,) if has_tuned else (), started_ns=0, ended_ns=10**12,
    )  # fmt: skip


def run_of(*trials: Trial) -> Run:
    return replace(RUN, trials=trials)


def speeds(run: Run, variant: str) -> list[float]:
    return [round(each.throughput, 3) for each in measures(run, {}).get(Key(NAME, "cpu", variant), ())]


FIRST = trial_of(0, (BASELINE, 100), (COMBINED, 150), (BASELINE, 100), (COMBINED, 160), (BASELINE, 100),
                 (TUNED, 155), (BASELINE, 100))  # fmt: skip


def test_readings_of_tuned_and_of_its_remedies_under_their_own_name_are_one_variant():
    later = trial_of(1, (BASELINE, 100), (TUNED, 145))
    run = run_of(FIRST, later)
    assert speeds(run, TUNED) == speeds(run, COMBINED) == [150, 160, 155, 145]
    tuned = analyse(run).cases[0].variants[TUNED]
    assert tuned.throughput.n == 2, "trials"
    assert tuned.readings == 4
    assert tuned.throughput.low < 150 < tuned.throughput.high


def test_other_combinations_and_scripts_are_not_pooled():
    assert speeds(run_of(FIRST), "fix:jit") == []
    own = replace(FIRST, scripts=(VariantScript(variant=TUNED, diff="", text="", fixes=()),))
    assert speeds(run_of(own), TUNED) == [155]
    assert speeds(run_of(own), COMBINED) == [150, 160]
    other = trial_of(0, (BASELINE, 100), (COMBINED, 150), (TUNED, 155), fixes=("fix:jit",))
    assert speeds(run_of(other), TUNED) == [155]


def test_what_one_trial_refuses_does_not_count_in_any():
    (alone, other) = COMBINED.replace("fix:", "").split("+")
    refusing = replace(trial_of(1, (BASELINE, 100)), judged={f"fix:{alone}": "It draws."})
    first = trial_of(
        0, (BASELINE, 100), (f"fix:{other}", 120), (COMBINED, 150), (BASELINE, 100), (TUNED, 155)
    )
    run = run_of(first, refusing)
    assert speeds(run_of(first), TUNED) == [150, 155]
    assert speeds(run, TUNED) == speeds(run, COMBINED) == []
    assert speeds(run, f"fix:{other}") == [120]


def test_a_remedy_has_its_gain_times_the_speed_of_the_baseline_in_the_run():
    """The first trial, which alone reads remedies, ran at half the speed of the others."""
    slow = trial_of(0, (BASELINE, 50), (COMBINED, 75), (BASELINE, 50))
    run = run_of(slow, *(trial_of(index, (BASELINE, 100)) for index in (1, 2, 3)))
    assert speeds(run, COMBINED) == [150]
    assert speeds(run, BASELINE) == [50, 50, 100, 100, 100]


def test_a_gain_does_not_depend_on_how_often_trials_read_the_baseline():
    slow = trial_of(0, *((BASELINE, 50),) * 4, (COMBINED, 43), (BASELINE, 50))
    run = run_of(slow, trial_of(1, (BASELINE, 100), (BASELINE, 100)))
    variants = analyse(run).cases[0].variants
    assert variants[COMBINED].ratios[RatioKind.OVER_BASELINE].median == pytest.approx(0.86)
    assert variants[COMBINED].throughput.median == pytest.approx(0.86 * variants[BASELINE].throughput.median)


def test_what_a_trial_read_before_it_failed_counts():
    failed = replace(FIRST, status=Status.FAILED)
    assert speeds(run_of(failed), TUNED) == [150, 160, 155]


def group(values: Sequence[float], *, trials: int = 1) -> list[Measure]:
    """Return readings of these speeds, spread over so many trials."""
    made = [trial_of(index, (BASELINE, 1.0)) for index in range(trials)]
    return [
        Measure(
            trial=made[number % trials], variant=BASELINE, at_ns=number, throughput=value, step_s=1 / value, batch=1,
            wait_share=None,
        )
        for number, value in enumerate(values)
    ]  # fmt: skip


def test_one_trial_has_its_readings_as_units_and_several_have_their_means():
    assert units(group([100.0, 110.0, 120.0])) == [100, 110, 120]
    two = units(group([100.0, 400.0, 200.0, 200.0], trials=2))
    assert two == pytest.approx([np.sqrt(100 * 200), np.sqrt(400 * 200)])


def test_readings_of_one_trial_share_its_conditions():
    logs = [0.1, -0.1, 0.0]
    read = group(np.exp([*logs, *(each + 0.01 for each in logs)]).tolist(), trials=3)
    ratio = speed_ratio(read, group([1.0], trials=1))
    assert ratio.n == 1 and not ratio.known, "the spread of a single reading is unknown"
    paired = speed_ratio(read, group([2.0, 2.0, 2.0], trials=3))
    assert paired.n == 3 and paired.half_width > 0.2, "readings of a trial agree, and trials do not"


def test_cpus_gpus_scripts_and_parts_of_the_breakdown_have_spreads_of_their_own():
    """Parts are read in one process, which differs less than processes; others use the CPUs, not the GPU."""
    random = np.random.default_rng(1)
    noises = {("cpu", BASELINE): 0.05, ("cpu", MODEL_ONLY): 0.005, ("gpu0", BASELINE): 0.01}
    measured = {
        Key(name, device, variant): tuple(group(np.exp(random.normal(0, noise, 4)).tolist()))
        for name in "abcdefghijklmnop"
        for (device, variant), noise in noises.items()
    }
    spreads = Spreads(measured)
    for (device, variant), noise in noises.items():
        assert spreads.of(device, variant).deviation == pytest.approx(noise, rel=0.4)
    assert spreads.of("cpu", TUNED) == spreads.of("cpu", COMBINED) == spreads.of("cpu", BASELINE)
    assert spreads.of("gpu1", TUNED) == spreads.of("gpu0", BASELINE)
    # One script under two names says nothing more.
    twice = {**measured, Key("a", "cpu", COMBINED): measured[Key("a", "cpu", BASELINE)]}
    assert Spreads(twice).of("cpu", TUNED) == spreads.of("cpu", TUNED)
    top, bottom = (measured[Key("a", device, BASELINE)] for device in ("gpu0", "cpu"))
    gpu, cpu = (spreads.of(device, BASELINE) for device in ("gpu0", "cpu"))
    assert speed_ratio(top, bottom, (gpu, cpu)).half_width < speed_ratio(top, bottom, (cpu, cpu)).half_width


def test_a_single_reading_has_an_interval_beside_others_by_what_is_usual():
    usual = Spread(deviation=0.03, degrees=8)
    one, two = (
        speed_ratio(group([150.0] * count), group([100.0] * count), (usual, usual)) for count in (1, 2)
    )
    assert 1.3 < one.low < 1.5 < one.high < 1.7
    assert np.log(two.high / two.low) < np.log(one.high / one.low) / np.sqrt(2)
    found = speed_ratio(group([150.0]), group([100.0]))
    assert (found.median, found.low, found.high, found.n) == pytest.approx((1.5, 1.5, 1.5, 1))


def test_a_gain_of_single_readings_has_no_interval():
    """Speeds whose ratio has another rounding than the exponential of its logarithm."""
    run = run_of(trial_of(0, (BASELINE, 40.7), ("opt:other", 101.3)))
    gain = analyse(run).cases[0].gain("opt:other")
    assert gain is not None and not gain.known
