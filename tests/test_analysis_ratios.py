import math

import numpy as np
import pytest

from harness.analysis.stats import ADAPTIVE_WIDENING, Gap, gap, mean_gap, ratio, sample
from harness.model.analysis import Estimate


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
