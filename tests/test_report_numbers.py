from collections.abc import Callable
from typing import Any

import pytest

from harness.model.analysis import Estimate
from harness.model.workload import Published
from harness.wording import counted, some
from reports import numbers


def of(median: float, low: float, high: float, n: int = 5, unit: str = "samples/s") -> Estimate:
    return Estimate(median=median, low=low, high=high, n=n, unit=unit)


def figure(value: float, upto: float, unit: str) -> Published:
    return Published(source="", system="", device="gpu", value=value, upto=upto, unit=unit)


@pytest.mark.parametrize(
    ("value", "text", "spread"),
    [
        (of(12_343.2, 12_151, 12_481), "12,300", "12,200 to 12,500"),
        (of(35_620, 34_920, 36_270), "35,600", "34,900 to 36,300"),
        (of(7178.4, 7178.3, 7178.5), "7,180", "7,180 to 7,180"),
        (of(0.5381, 0.524, 0.555), "0.538", "0.524 to 0.555"),
        (of(3.0, 1.0, 9.0), "3.0", "1.0 to 9.0"),
        (of(384_373, 6_904, 19_436_994, n=2), "380,000", "6,900 to 19,440,000"),
        (of(886, 886, 886, n=1), "886", "one trial"),
        (of(0.0, 0.0, 0.0), "0", "0 to 0"),
    ],
)
def test_the_interval_determines_the_digits_up_to_three(value: Estimate, text: str, spread: str) -> None:
    assert numbers.speed(value) == f"{text}/s"
    assert numbers.interval(value) == spread


def test_an_interval_of_ratios_over_many_powers_of_ten_is_cut() -> None:
    assert numbers.ratio_interval(of(0.57, 4.3e-15, 1.25e14, n=2)) == "0 to over 10,000"
    assert numbers.ratio_interval(of(0.57, 0.081, 4.68, n=3)) == "0.081 to 4.68"


def test_missing_values_are_not_shown_as_zero() -> None:
    missing = (numbers.speed(None), numbers.interval(None), numbers.percent(None),
               numbers.size(None), numbers.quantity(None), numbers.number(float("nan")),
               numbers.factor(float("inf")), numbers.duration(float("nan")))  # fmt: skip
    assert set(missing) == {numbers.MISSING}


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        (numbers.duration, 3 * 3600 + 125, "3 h 02 min"),
        (numbers.duration, 1075, "17 min 55 s"),
        (numbers.duration, 3599.9, "60 min 00 s"),
        (numbers.duration, 28.4, "28.4 s"),
        (numbers.duration, 0.00302, "3.02 ms"),
        (numbers.duration, 9e-7, "900 ns"),
        (numbers.duration, 0.0, "0 s"),
        (numbers.percent, 0.0432, "4.3 %"),
        (numbers.percent, 0.0099999999, "1.0 %"),
        (numbers.percent, 0.834, "83 %"),
        (numbers.percent, 0.0, "0 %"),
        (numbers.percent, -0.12, "\u221212 %"),
        (numbers.factor, 0.6531, "0.65×"),
        (numbers.factor, 6.2331, "6.2×"),
        (numbers.factor, 13.5, "14×"),
        (numbers.factor, 190.4, "190×"),
        (numbers.quantity, of(343, 340, 346, unit="s"), "5 min 43 s"),
        (numbers.quantity, of(3.1, 3, 3.2, unit="ratio"), "3.1×"),
        (numbers.quantity, of(0.94, 0.9, 0.95, unit="share"), "94 %"),
        (numbers.quantity, of(12_343.2, 12_151, 12_481), "12,300/s"),
        (numbers.published, figure(47, 0, "samples/s"), "47/s"),
        (numbers.published, figure(15000, 17000, "samples/s"), "15,000 to 17,000/s"),
        (numbers.published, figure(1_234_567, 0, "samples/s"), "1,234,567/s"),
        (numbers.published, figure(0, 0.1, "utilisation"), "0 to 10 %"),
        (numbers.published, figure(4, 0, "ratio"), "4×"),
        (numbers.published, figure(343, 0, "s"), "5 min 43 s"),
        (numbers.energy, 0.0215, "21.5 mJ"),
        (numbers.size, 150_754_820_096, "140 GiB"),
        (numbers.number, -0.001234, "\u22120.00123"),
        (numbers.money, of(1.2345, 1, 2, unit="EUR"), "1.23 EUR"),
        (numbers.when, "2026-01-02T03:04:05+00:00", "2 January 2026, 03:04 UTC"),
        (numbers.when, "some day", "some day"),
    ],
)
def test_quantities_have_suitable_units(written: Callable[[Any], str], value: Any, text: str) -> None:
    assert written(value).replace(numbers.SPACE, " ") == text


def test_counts_agree_with_nouns_and_long_lists_are_shortened() -> None:
    counts = [(0, "no runs"), (1, "1 run"), (1200, "1,200 runs")]
    assert [counted(count, "run") for count, _ in counts] == [text for _, text in counts]
    assert [some(each) for each in ("abc", "abcde")] == ["a, b, c", "a, b, c and 2 more"]
