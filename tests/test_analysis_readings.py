"""Readings of a variant in one or several trials become speeds and ratios with intervals."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.stats import Spread, speed_estimate, speed_ratio, spread
from harness.analysis.trial_measures import Measure, by_trial, measures
from harness.model.analysis import Estimate, Key, find_by_key
from harness.model.run import Run, Status, Trial, VariantScript, Window
from tests.builders import cpu_run
from workloads.protocol import BASELINE, TUNED, together

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
    return [round(each.throughput, 3) for each in measures(run).get(Key(NAME, "cpu", variant), ())]


FIRST = trial_of(0, (BASELINE, 100), (COMBINED, 150), (BASELINE, 100), (COMBINED, 160), (BASELINE, 100),
                 (TUNED, 155), (BASELINE, 100))  # fmt: skip


def test_readings_of_tuned_and_of_its_remedies_under_their_own_name_are_one_variant():
    later = trial_of(1, (BASELINE, 100), (TUNED, 145))
    run = run_of(FIRST, later)
    assert speeds(run, TUNED) == speeds(run, COMBINED) == [150, 160, 155, 145]
    summary = find_by_key(analyse(run).summaries, Key(NAME, "cpu", TUNED))
    assert summary.throughput.n == 4
    assert summary.throughput.low < 152.5 < summary.throughput.high


def test_other_combinations_and_scripts_are_not_pooled():
    assert speeds(run_of(FIRST), "fix:jit") == []
    own = replace(FIRST, scripts=(VariantScript(variant=TUNED, diff="", text="", fixes=()),))
    assert speeds(run_of(own), TUNED) == [155]
    assert speeds(run_of(own), COMBINED) == [150, 160]
    other = trial_of(0, (BASELINE, 100), (COMBINED, 150), (TUNED, 155), fixes=("fix:jit",))
    assert speeds(run_of(other), TUNED) == [155]


def test_a_remedy_has_its_gain_times_the_speed_of_the_baseline_in_the_run():
    """The first trial, which alone reads remedies, ran at half the speed of the others."""
    slow = trial_of(0, (BASELINE, 50), (COMBINED, 75), (BASELINE, 50))
    run = run_of(slow, *(trial_of(index, (BASELINE, 100)) for index in (1, 2, 3)))
    assert speeds(run, COMBINED) == [150]
    assert speeds(run, BASELINE) == [50, 50, 100, 100, 100]


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


NOISE = 0.03
# Four standard errors beside 95 % in this many draws.
DRAWS, WITHIN = 1500, 0.0225


def draw(random: np.random.Generator, count: int, truth: float = 1.0) -> list[Measure]:
    return group((truth * np.exp(random.normal(0, NOISE, count))).tolist())


def covers(found: Estimate | None, truth: float) -> bool:
    assert found is not None
    return found.low <= truth <= found.high


@pytest.mark.parametrize("others", [2, 8])
@pytest.mark.parametrize("count", [2, 3])
def test_intervals_of_few_readings_cover_the_speed(count, others):
    """Two readings use the spread of all variants, which are read twice each; three have their own."""
    random = np.random.default_rng(count)
    hits = 0
    for _ in range(DRAWS):
        own = draw(random, count, truth=100)
        usual = spread([own, *(draw(random, 2) for _ in range(others))])
        hits += covers(speed_estimate(own, usual), 100)
    assert hits / DRAWS == pytest.approx(0.95, abs=WITHIN)


@pytest.mark.parametrize(("top", "bottom"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (2, 7)])
def test_intervals_of_ratios_of_few_readings_cover_the_ratio(top, bottom):
    random = np.random.default_rng(10 * top + bottom)
    hits = 0
    for _ in range(DRAWS):
        sides = draw(random, top, truth=150), draw(random, bottom, truth=100)
        usual = spread([*sides, *(draw(random, 2) for _ in range(4))])
        hits += covers(speed_ratio(*sides, usual), 1.5)
    # Medians of three scatter a little more than their means, and Welch's interval of three is a little too wide.
    assert hits / DRAWS == pytest.approx(0.95, abs=WITHIN + 0.01)


def test_more_readings_are_narrower():
    usual = Spread(deviation=NOISE, degrees=8)
    widths = [speed_estimate(group([100.0] * count), usual).half_width for count in (1, 2)]
    assert widths[0] is None and 0 < widths[1] < 0.06
    ratios = [speed_ratio(group([150.0] * count), group([100.0] * count), usual) for count in (1, 2)]
    one, two = (np.log(each.high / each.low) for each in ratios)
    assert two == pytest.approx(one / np.sqrt(2))
    assert [each.n for each in ratios] == [1, 2]


def test_one_reading_each_has_no_interval_without_a_spread():
    assert spread([group([100.0]), group([150.0, 151.0], trials=2)]) == Spread(), "one reading in each trial"
    found = speed_ratio(group([150.0]), group([100.0]), Spread())
    assert (found.median, found.low, found.high, found.n) == pytest.approx((1.5, 1.5, 1.5, 1))
    assert speed_estimate(group([100.0]), Spread(deviation=NOISE, degrees=3)).half_width is None


def test_the_spread_is_pooled_within_variants_and_trials():
    one, other = group(np.exp([0.0, 0.02]).tolist()), group((7 * np.exp([0.0, 0.02, 0.04])).tolist())
    assert spread([one, other, group([50.0])]).degrees == 3
    assert spread([one, other]).deviation == pytest.approx(np.sqrt((2e-4 + 8e-4) / 3))
    apart = group(np.exp([0.0, 1.0, 0.02, 1.02]).tolist(), trials=2)
    assert spread([apart]).deviation == pytest.approx(0.02 / np.sqrt(2)), "trials may differ"


def test_three_trials_are_the_unit_whatever_their_readings():
    """Two readings of each trial share its conditions."""
    logs = [0.1, -0.1, 0.0]
    values = np.exp([*logs, *(each + 0.01 for each in logs)]).tolist()
    read = group(values, trials=3)
    assert len(by_trial(read)) == 3
    found = speed_estimate(read, spread([read]))
    assert found.n == 3
    assert found.half_width > 0.2, "readings of a trial agree, and trials do not"
