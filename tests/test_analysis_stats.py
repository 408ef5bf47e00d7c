"""Intervals that cover what they say, and tests that find trends and outliers and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.stats import (
    SMALL,
    drift,
    estimate,
    half_width,
    narrow_enough,
    outliers,
    ratio,
    t_quantile,
    t_tail,
    variation,
)

SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=1, max_size=SMALL + 5)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10])
def test_intervals_of_a_handful_of_trials_cover_the_median_as_often_as_they_say(n: int) -> None:
    random = np.random.default_rng(n)
    hits = [_covers(estimate(np.exp(random.normal(0, 0.05, n)).tolist(), ""), 1.0) for _ in range(1500)]
    # 1500 draws have a standard error of 0.6 points; a percentile bootstrap gives 75 % at n = 3.
    assert 0.93 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("n", [SMALL, 30])
def test_the_bootstrap_of_many_trials_covers_skewed_noise_too(n: int) -> None:
    random = np.random.default_rng(n)
    shift = np.log(2)
    hits = [
        _covers(estimate(np.exp(0.05 * (random.exponential(size=n) - shift)).tolist(), ""), 1.0)
        for _ in range(600)
    ]
    assert 0.89 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize("n", [3, 5, 10])
def test_paired_ratios_cover_the_truth_on_a_machine_that_drifts(n: int) -> None:
    random = np.random.default_rng(n)
    hits, widths = [], []
    for _ in range(1500):
        machine = np.exp(random.normal(0, 0.2, n))
        top = 3 * machine * np.exp(random.normal(0, 0.03, n))
        bottom = machine * np.exp(random.normal(0, 0.03, n))
        found = ratio(dict(enumerate(top.tolist())), dict(enumerate(bottom.tolist())))
        assert found is not None
        hits.append(_covers(found, 3.0))
        widths.append(half_width(found))
    assert 0.93 <= np.mean(hits) <= 0.97
    if n == 10:
        assert np.median(np.array(widths, dtype=float)) < 0.05  # what the machine does cancels out


def test_unpaired_sides_are_compared_as_independent_samples() -> None:
    random = np.random.default_rng(1)
    hits = []
    for _ in range(1500):
        top = dict(enumerate(np.exp(random.normal(1, 0.05, 4)).tolist()))
        bottom = dict(enumerate(np.exp(random.normal(0, 0.02, 5)).tolist(), 100))
        found = ratio(top, bottom)
        assert found is not None
        hits.append(_covers(found, float(np.e)))
    assert 0.93 <= np.mean(hits) <= 0.985  # degrees of freedom are rounded down


def test_one_value_has_no_interval_and_none_has_no_estimate() -> None:
    one = estimate([7.0], "s")
    assert one is not None
    assert (one.median, one.low, one.high, one.n) == (7.0, 7.0, 7.0, 1)
    assert half_width(one) is None
    assert estimate([], "s") is None
    assert estimate([float("nan"), float("inf")], "s") is None


def test_values_that_are_not_positive_still_get_an_interval() -> None:
    found = estimate([-1.0, 0.0, 1.0], "")
    assert found is not None
    assert found.low == pytest.approx(-4.303 / np.sqrt(3), rel=1e-3)
    assert found.high == pytest.approx(-found.low)


@given(SPEEDS)
def test_the_median_lies_in_its_interval(values: list[float]) -> None:
    found = estimate(values, "samples/s")
    assert found is not None
    assert found.low <= found.median <= found.high
    assert found.n == len(values)


@given(SPEEDS, st.floats(min_value=0.01, max_value=100))
def test_another_unit_scales_the_whole_interval(values: list[float], factor: float) -> None:
    found, scaled = estimate(values, ""), estimate([value * factor for value in values], "")
    assert found is not None and scaled is not None
    assert scaled.low == pytest.approx(found.low * factor, rel=1e-6)
    assert scaled.high == pytest.approx(found.high * factor, rel=1e-6)


@given(SPEEDS)
def test_the_same_values_give_the_same_interval(values: list[float]) -> None:
    assert estimate(values, "") == estimate(values, "")


def test_ratios_with_one_or_no_trial_in_common() -> None:
    assert ratio({}, {0: 1.0}) is None
    single = ratio({0: 6.0}, {0: 2.0})
    assert single is not None and (single.median, single.n) == (3.0, 1)
    other = ratio({0: 6.0}, {1: 2.0, 2: 2.0})
    assert other is not None and other.median == pytest.approx(3.0) and other.n == 1


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (10, 2.228), (1000, 1.962)])
def test_students_quantiles_are_those_of_the_tables(degrees: float, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=0.01)
    assert t_tail(t_quantile(degrees, 0.01), degrees) == pytest.approx(0.01)


def test_narrow_enough_is_about_the_half_width() -> None:
    assert not narrow_enough([], 0.5)
    assert not narrow_enough([100.0], 0.5)
    assert narrow_enough([100.0, 100.0, 100.0], 1e-9)
    values = [99.0, 100.0, 101.0]  # half width: 4.303 * 1 / sqrt(3) = 2.5 %
    assert narrow_enough(values, 0.026)
    assert not narrow_enough(values, 0.024)


def test_variation() -> None:
    assert variation([90.0, 100.0, 110.0, 100.0]) == pytest.approx(np.std([90, 100, 110, 100], ddof=1) / 100)
    assert variation([4.0]) == 0.0


def test_outliers_are_far_off_by_spread_and_by_size() -> None:
    assert outliers([100, 101, 99, 100, 60]) == (4,)
    assert outliers([100, 100, 100, 100, 101]) == ()  # far beyond the spread, but 1 % only
    assert outliers([100, 101, 60, 99]) == ()  # four values cannot tell


def test_drift_needs_a_trend_that_chance_does_not_give() -> None:
    falling = drift([100, 98, 96, 94, 92])
    assert falling is not None
    assert falling.p == pytest.approx(2 / 120)  # two of the 5! orders are monotone
    assert falling.change == pytest.approx(-0.08)
    still = drift([100, 98, 101, 99, 100])
    assert still is not None and still.p > 0.3
    assert drift([1, 2, 3]) is None


def test_drift_is_told_by_chance_no_oftener_than_p_says() -> None:
    random = np.random.default_rng(3)
    found = [drift(random.normal(100, 5, 7).tolist()) for _ in range(1000)]
    assert np.mean([one.p < 0.05 for one in found if one is not None]) < 0.06


def _covers(found: object, truth: float) -> bool:
    return found.low <= truth <= found.high  # type: ignore[attr-defined]
