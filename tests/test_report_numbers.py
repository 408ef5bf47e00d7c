"""Numbers in reports: digits from the interval, and units that fit."""

from __future__ import annotations

import pytest

from harness.model.analysis import Estimate
from reports import numbers
from workloads.protocol import Published

S = numbers.SPACE


def of(median, low, high, n=5, unit="samples/s"):
    return Estimate(median=median, low=low, high=high, n=n, unit=unit)


@pytest.mark.parametrize(
    ("value", "text", "spread"),
    [
        (of(12_343.2, 12_151, 12_481), "12,300", "12,200 to 12,500"),
        (of(35_620, 34_920, 36_270), "35,600", "34,900 to 36,300"),
        (of(7178.4, 7178.3, 7178.5), "7,180", "7,180 to 7,180"),
        (of(0.5381, 0.524, 0.555), "0.538", "0.524 to 0.555"),
        (of(3.0, 1.0, 9.0), "3.0", "1.0 to 9.0"),
        (of(886, 886, 886, n=1), "886", "one trial"),
        (of(0.0, 0.0, 0.0), "0", "0 to 0"),
    ],
)
def test_the_interval_decides_the_digits_and_three_are_the_most(value, text, spread):
    assert numbers.estimate(value) == text
    assert numbers.speed(value) == f"{text}/s"
    assert numbers.interval(value) == spread


def test_what_is_missing_is_no_zero():
    missing = (numbers.estimate(None), numbers.speed(None), numbers.interval(None), numbers.percent(None),
               numbers.size(None), numbers.quantity(None), numbers.number(float("nan")),
               numbers.factor(float("inf")), numbers.duration(float("nan")))  # fmt: skip
    assert set(missing) == {numbers.MISSING}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3 * 3600 + 125, f"3{S}h 02{S}min"),
        (1075, f"17{S}min 55{S}s"),
        (3599.9, f"60{S}min 00{S}s"),
        (28.4, f"28.4{S}s"),
        (0.00302, f"3.02{S}ms"),
        (9e-7, f"900{S}ns"),
        (0.0, f"0{S}s"),
    ],
)
def test_durations_are_in_units_that_a_person_would_use(seconds, text):
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0432, "4.3"), (0.0099999999, "1.0"), (0.834, "83"), (0.0, "0"), (1.0, "100"), (-0.12, "\u221212")],
)
def test_shares(share, text):
    assert numbers.percent(share) == f"{text}{S}%"


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.6531, "0.65×"), (1.44, "1.4×"), (6.2331, "6.2×"), (13.5, "14×"), (190.4, "190×")]
)
def test_ratios(ratio, text):
    assert numbers.factor(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (of(343, 340, 346, unit="s"), f"5{S}min 43{S}s"),
        (of(3.1, 3, 3.2, unit="ratio"), "3.1×"),
        (of(0.94, 0.9, 0.95, unit="share"), f"94{S}%"),
        (of(12_343.2, 12_151, 12_481), "12,300/s"),
    ],
)
def test_a_measured_figure_stands_in_its_own_unit(value, text):
    assert numbers.quantity(value) == text


@pytest.mark.parametrize(
    ("value", "upto", "unit", "text"),
    [
        (47, 0, "samples/s", "47/s"),
        (15000, 17000, "samples/s", "15,000 to 17,000/s"),
        (0, 0.1, "utilisation", f"0 to 10{S}%"),
        (4, 0, "ratio", "4×"),
        (343, 0, "s", f"5{S}min 43{S}s"),
    ],
)
def test_published_figures_keep_their_digits(value, upto, unit, text):
    figure = Published(source="", system="", device="gpu", value=value, upto=upto, unit=unit)
    assert numbers.published(figure) == text


def test_other_units():
    assert numbers.energy(0.0215) == f"21.5{S}mJ"
    assert numbers.size(150_754_820_096) == f"140{S}GiB"
    assert numbers.number(-0.001234) == "\u22120.00123"
    assert numbers.money(of(1.2345, 1, 2, unit="EUR")) == f"1.23{S}EUR"
    assert numbers.when("2026-01-02T03:04:05+00:00") == "2 January 2026, 03:04 UTC"
    assert numbers.when("some day") == "some day"
