import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.stats import (
    ADAPTIVE_WIDENING,
    Gap,
    estimate,
    gap,
    mean_gap,
    narrow_enough,
    ratio,
    sample,
)
from harness.model.analysis import Estimate

SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=1, max_size=20)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10, 30])
def test_intervals_cover_the_median_in_95_percent_of_cases(n: int) -> None:
    random = np.random.default_rng(n)
    result = [estimate(np.exp(random.normal(0, 0.05, n)).tolist(), "") for _ in range(1500)]
    # The standard error of 1500 draws is 0.6 points. A percentile bootstrap covers 75 % at n = 3.
    assert 0.93 <= np.mean([each is not None and each.low <= 1.0 <= each.high for each in result]) <= 0.97


def test_one_value_has_no_interval_and_no_values_have_no_estimate() -> None:
    each = estimate([7.0], "s")
    assert (each.median, each.low, each.high, each.n, each.half_width) == (7, 7, 7, 1, None)
    assert estimate([], "s") is estimate([float("nan"), float("inf")], "s") is None


def test_non_positive_values_get_an_interval() -> None:
    result = estimate([-1.0, 0.0, 1.0], "")
    assert (-result.low, result.high) == pytest.approx((4.303 / np.sqrt(3),) * 2, rel=1e-3)


@given(SPEEDS, st.floats(min_value=0.01, max_value=100))
def test_intervals_contain_the_median_and_scale_with_the_unit(values: list[float], factor: float) -> None:
    result, scaled = estimate(values, ""), estimate([value * factor for value in values], "")
    assert result.low <= result.median <= result.high and result.n == len(values)
    assert (scaled.low, scaled.high) == pytest.approx((result.low * factor, result.high * factor), rel=1e-6)


@pytest.mark.parametrize(
    ("values", "target", "enough"),
    # The half width of the last is 4.303 * 1 / sqrt(3) = 2.5 %.
    [([], 0.5, False), ([100.0], 0.5, False), ([100.0] * 3, 1e-9, True),
     ([99.0, 100.0, 101.0], 0.026, True), ([99.0, 100.0, 101.0], 0.024, False)],
)  # fmt: skip
def test_narrow_enough_compares_the_half_width(values: list[float], target: float, enough: bool) -> None:
    assert narrow_enough(values, target) is enough


def gap_between(top: list[float], bottom: list[float], *, adaptive: bool = False) -> Gap:
    numerator, denominator = (sample(values, adaptive=adaptive) for values in (top, bottom))
    return gap(numerator, denominator)


def covers(result: Estimate | None, truth: float) -> bool:
    return result.low <= truth <= result.high


@pytest.mark.parametrize("n", [3, 5, 10])
def test_paired_ratios_cover_the_truth_on_a_machine_that_drifts(n: int) -> None:
    random = np.random.default_rng(n)
    hits, widths = [], []
    for _ in range(1500):
        machine = np.exp(random.normal(0, 0.2, n))
        top = 3 * machine * np.exp(random.normal(0, 0.03, n))
        bottom = machine * np.exp(random.normal(0, 0.03, n))
        result = ratio(dict(enumerate(top.tolist())), dict(enumerate(bottom.tolist())))
        hits.append(covers(result, 3.0))
        widths.append(result.half_width if result else None)
    assert 0.93 <= np.mean(hits) <= 0.97
    if n == 10:
        assert np.median(np.array(widths, dtype=float)) < 0.05  # drift of the machine cancels out


def test_unpaired_sides_are_compared_as_independent_samples() -> None:
    random = np.random.default_rng(1)
    hits = []
    for _ in range(1500):
        top = dict(enumerate(np.exp(random.normal(1, 0.05, 4)).tolist()))
        bottom = dict(enumerate(np.exp(random.normal(0, 0.02, 5)).tolist(), 100))
        hits.append(covers(ratio(top, bottom), math.e))
    assert 0.93 <= np.mean(hits) <= 0.985


def test_ratios_with_few_common_trials() -> None:
    assert ratio({}, {0: 1.0}) is None
    for bottom in ({0: 2.0}, {1: 2.0, 2: 2.0}):
        result = ratio({0: 6.0}, bottom)
        assert (result.median, result.n) == (pytest.approx(3.0), 1)


def test_welch_interval_matches_a_hand_calculation() -> None:
    """Formulas of Welch 1947, with a variance of 4e-4 for three values and 1e-4 for five."""
    top, bottom = np.exp(np.array([-0.02, 0.0, 0.02])), np.exp(np.array([-1, -1, 0, 1, 1]) * 0.01)
    result = gap_between(top.tolist(), bottom.tolist())
    assert result.error == pytest.approx(math.sqrt(4e-4 / 3 + 1e-4 / 5))
    assert result.degrees == pytest.approx((4e-4 / 3 + 2e-5) ** 2 / ((4e-4 / 3) ** 2 / 2 + 2e-5**2 / 4))
    skewed = gap_between([1.0, 2.0, 9.0], [1.0, 1.0, 1.0]).estimate()
    assert skewed.median == pytest.approx(2.0) and skewed.low < 2 < skewed.high


def test_single_trials_have_no_interval_and_invalid_speeds_are_ignored() -> None:
    single = gap_between([3.0], [2.0, 2.1, 2.2]).estimate()
    assert single.n == 1 and single.low == single.median == single.high
    assert sample([0.0, -1.0, math.nan]) is None
    only = sample([0.0, 5.0])
    assert only.n == 1


def test_adaptive_runs_get_a_wider_interval() -> None:
    values = [1.0, 1.01, 1.02]
    fixed, adaptive = (gap_between(values, values, adaptive=each) for each in (False, True))
    assert adaptive.error == pytest.approx(ADAPTIVE_WIDENING * fixed.error)


def test_a_mean_of_gaps_has_a_smaller_error() -> None:
    each = gap_between([1.0, 1.02, 1.04], [1.0, 1.02, 1.04])
    mean = mean_gap([each] * 4)
    assert mean.error == pytest.approx(each.error / 2)
    assert mean.degrees > each.degrees
