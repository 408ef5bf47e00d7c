import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.ratios import LogDifference, gap, ratio, sample
from harness.analysis.sweeps import may_be_best
from harness.intervals import Spread, estimate, half_width, own_spread, t_quantile, usual_spread
from harness.model.analysis import Estimate
from harness.model.run import Point

SWEEPS = 400


def point(number: int) -> Point:
    return (("batch_size", number),)


def simulated(
    random: np.random.Generator, speeds: Sequence[float], trials: int, noise: float, drift: float = 0.0
) -> dict[Point, dict[int, float]]:
    """Simulate trials on a machine whose speed drifts from index to index, equally for all points."""
    machine = np.exp(random.normal(0.0, drift, trials))
    values = np.outer(speeds, machine) * np.exp(random.normal(0.0, noise, (len(speeds), trials)))
    return {point(number): dict(enumerate(own)) for number, own in enumerate(values.tolist())}


def test_the_fastest_point_is_kept_in_95_percent_of_sweeps() -> None:
    """All points are equally fast, which is the hardest case."""
    random = np.random.default_rng(1)
    for points, trials in ((3, 3), (9, 3), (12, 5)):
        sweeps = (simulated(random, [100.0] * points, trials, 0.05) for _ in range(SWEEPS))
        hits = sum(point(0) in may_be_best(speeds) for speeds in sweeps)
        # Four standard errors below a proportion of 0.95.
        assert hits / SWEEPS > 0.95 - 4 * np.sqrt(0.95 * 0.05 / SWEEPS)
    # Trials are interleaved, so even 20 % drift of the machine does not hide a difference.
    drifting = [simulated(random, [100.0, 95.0], 4, 0.002, drift=0.2) for _ in range(20)]
    assert {may_be_best(speeds) for speeds in drifting} == {frozenset({point(0)})}


def test_points_may_have_different_numbers_of_trials() -> None:
    speeds = {
        point(0): {0: 100.0, 1: 101.0, 2: 100.5},
        point(1): {0: 50.0, 1: 50.6},
        point(2): {0: 100.2, 2: 100.1},
        point(3): {},
    }
    assert may_be_best(speeds) == {point(0), point(2)}
    assert may_be_best({point(0): {0: 100.0}, point(1): {0: 1.0}}) is None, "single trials are not enough"
    assert may_be_best({}) is None


def gap_between(top: list[float], bottom: list[float], *, adaptive: bool = False) -> LogDifference:
    numerator, denominator = (sample(values, adaptive=adaptive) for values in (top, bottom))
    return gap(numerator, denominator)


def covers(result: Estimate | None, truth: float) -> bool:
    return result.low <= truth <= result.high


@pytest.mark.parametrize("n", [3, 10])
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


def test_welch_interval_matches_a_hand_calculation() -> None:
    """Formulas of Welch 1947, with a variance of 4e-4 for three values and 1e-4 for five."""
    top, bottom = np.exp(np.array([-0.02, 0.0, 0.02])), np.exp(np.array([-1, -1, 0, 1, 1]) * 0.01)
    result = gap_between(top.tolist(), bottom.tolist())
    assert result.error == pytest.approx(math.sqrt(4e-4 / 3 + 1e-4 / 5))
    assert result.degrees == pytest.approx((4e-4 / 3 + 2e-5) ** 2 / ((4e-4 / 3) ** 2 / 2 + 2e-5**2 / 4))
    skewed = gap_between([1.0, 2.0, 9.0], [1.0, 1.0, 1.0]).estimate()
    assert skewed.median == pytest.approx(2.0) and skewed.low < 2 < skewed.high
    single = gap_between([3.0], [2.0, 2.1, 2.2]).estimate()
    assert single.n == 1 and single.low == single.median == single.high
    assert sample([0.0, -1.0, math.nan]) is None, "invalid speeds are ignored"
    assert sample([0.0, 5.0]).n == 1


SPEEDS = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=1, max_size=20)


@pytest.mark.parametrize("n", [3, 5, 30])
def test_intervals_cover_the_median_in_95_percent_of_cases(n: int) -> None:
    random = np.random.default_rng(n)
    result = [estimate(np.exp(random.normal(0, 0.05, n)).tolist(), "") for _ in range(1500)]
    # The standard error of 1500 draws is 0.6 points. A percentile bootstrap covers 75 % at n = 3.
    assert 0.93 <= np.mean([each is not None and each.low <= 1.0 <= each.high for each in result]) <= 0.97


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(("differ", "least"), [(0.0, 0.93), (0.5, 0.90)])
def test_intervals_with_the_usual_spread_cover_the_truth_and_are_narrower(
    count: int, differ: float, least: float
) -> None:
    """Eight speeds of a run have standard deviations that are equal, or differ."""
    random = np.random.default_rng(count)
    hits, widths = [], []
    for _ in range(250):
        deviations = 0.03 * np.exp(random.normal(0, differ, 8))
        groups = [np.exp(random.normal(0, each, count)).tolist() for each in deviations]
        usual = usual_spread(groups)
        for values in groups:
            found = estimate(values, "", usual)
            hits.append(covers(found, 1.0))
            widths.append(half_width(values, usual) / half_width(values))
    assert least < np.mean(hits) < 0.98
    assert np.median(widths) < {2: 0.45, 5: 0.92}[count]


def test_what_is_usual_needs_two_speeds_and_weighs_less_where_they_differ() -> None:
    assert usual_spread([]) == usual_spread([[1.0, 1.1]]) == usual_spread([[1.0], [2.0]]) == Spread()
    assert usual_spread([[2.0, 2.0], [3.0, 3.0]]) == Spread(), "identical values"
    random = np.random.default_rng(5)

    def groups(differ: float) -> list[list[float]]:
        deviations = 0.03 * np.exp(random.normal(0, differ, 40))
        return [np.exp(random.normal(0, each, 6)).tolist() for each in deviations]

    alike, unlike = usual_spread(groups(0.0)), usual_spread(groups(1.5))
    assert alike.deviation == pytest.approx(0.03, rel=0.15) and unlike.degrees < 3 < alike.degrees
    one, two = Spread(deviation=0.3, degrees=1), Spread(deviation=0.1, degrees=3)
    assert one.joined(two).deviation == pytest.approx(math.sqrt((0.09 + 0.03) / 4))
    assert one.joined(Spread()) == one


def test_one_value_has_no_interval_and_no_values_have_no_estimate() -> None:
    each = estimate([7.0], "s")
    assert (each.median, each.low, each.high, each.n, each.half_width) == (7, 7, 7, 1, None)
    assert estimate([], "s") is estimate([float("nan"), float("inf")], "s") is None
    around = estimate([-1.0, 0.0, 1.0], "")
    assert (-around.low, around.high) == pytest.approx((4.303 / np.sqrt(3),) * 2, rel=1e-3)
    assert ratio({}, {0: 1.0}) is None
    for bottom in ({0: 2.0}, {1: 2.0, 2: 2.0}):
        result = ratio({0: 6.0}, bottom)
        assert (result.median, result.n) == (pytest.approx(3.0), 1), "few common trials"


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
def test_half_widths_are_infinite_without_an_interval(
    values: list[float], target: float, enough: bool
) -> None:
    assert (half_width(values) <= target) is enough


def test_the_spread_can_be_read_from_an_interval_again() -> None:
    """Limits and the comparison of GPUs do so."""
    values, usual = [99.0, 100.0, 101.0], Spread(deviation=0.02, degrees=5)
    found = estimate(values, "", usual)
    expected = own_spread(np.log(values)).joined(usual)
    assert found.degrees == expected.degrees == 7 and found.map(lambda value: 1 / value, "").degrees == 7
    half = math.log(found.high / found.low) / 2
    assert half * math.sqrt(3) / t_quantile(found.degrees) == pytest.approx(expected.deviation, rel=1e-3)
    assert estimate(values, "").degrees == 2
