import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.stats import estimate, narrow_enough

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
