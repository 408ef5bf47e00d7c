"""Numbers in reports: significant digits from the interval, and units that fit."""

from __future__ import annotations

import pytest

from harness.model.analysis import Estimate
from reports import numbers

T = numbers.THIN


def of(median, low, high, n=5, unit="samples/s"):
    return Estimate(median=median, low=low, high=high, n=n, unit=unit)


@pytest.mark.parametrize(
    ("value", "text", "spread"),
    [
        (of(12_343.2, 12_151, 12_481), f"12{T}340", f"12{T}150 to 12{T}480"),
        (of(35_620, 34_920, 36_270), f"35{T}600", f"34{T}900 to 36{T}300"),
        (of(7178.4, 7178.3, 7178.5), f"7{T}178", f"7{T}178 to 7{T}178"),
        (of(0.5381, 0.524, 0.555), "0.538", "0.524 to 0.555"),
        (of(3.0, 1.0, 9.0), "3.0", "1.0 to 9.0"),
        (of(886, 886, 886, n=1), "886", "one trial"),
        (of(0.0, 0.0, 0.0), "0", "0 to 0"),
    ],
)
def test_interval_decides_the_digits(value, text, spread):
    assert numbers.estimate(value) == text
    assert numbers.interval(value) == spread


def test_missing_is_said_and_never_a_zero():
    assert numbers.estimate(None) == numbers.MISSING
    assert numbers.percent(None) == numbers.MISSING
    assert numbers.size(None) == numbers.MISSING
    assert numbers.number(float("nan")) == numbers.MISSING


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1075, f"17{T}min 55{T}s"),
        (3 * 3600 + 125, f"3{T}h 02{T}min"),
        (3599.9, f"60{T}min 00{T}s"),
        (28.4, f"28.4{T}s"),
        (0.00302, f"3.02{T}ms"),
        (9e-7, f"900{T}ns"),
        (0.0, f"0{T}s"),
    ],
)
def test_durations_are_in_units_that_a_person_would_use(seconds, text):
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0099999999, f"1.0{T}%"),
        (0.834, f"83{T}%"),
        (0.0, f"0{T}%"),
        (1.0, f"100{T}%"),
        (0.0432, f"4.3{T}%"),
    ],
)
def test_percentages(share, text):
    assert numbers.percent(share) == text


def test_ratios_keep_three_digits_and_their_interval():
    assert numbers.ratio_estimate(of(6.2331, 6.2152, 6.2413, unit="ratio")) == "6.23× (6.22 to 6.24)"
    assert numbers.ratio_estimate(of(6.2331, 6.2331, 6.2331, n=1, unit="ratio")) == "6.23×"


def test_units():
    assert numbers.energy(0.0215) == f"21.5{T}mJ"
    assert numbers.size(150_754_820_096) == f"140{T}GiB"
    assert numbers.published_quantity(47, 0, "samples/s") == f"47{T}samples/s"
    assert numbers.published_quantity(15000, 17000, "samples/s") == f"15{T}000 to 17{T}000{T}samples/s"
    assert numbers.published_quantity(0, 0.1, "utilisation") == f"0 to 10{T}% utilisation"
    assert numbers.published_quantity(0.94, 0, "accuracy") == f"94{T}% accuracy"
    assert numbers.published_quantity(4, 0, "ratio") == "4×"
    assert numbers.published_quantity(3, 0, "gain") == "3× by tuning"
    assert numbers.published_quantity(343, 0, "s") == numbers.quantity(343, "s")
    assert numbers.quantity(343, "s") == f"5{T}min 43{T}s"
    assert numbers.quantity(3.1, "ratio") == "3.10×"
    assert numbers.number(-0.001234) == "\u22120.00123"
    assert numbers.when("2026-01-02T03:04:05+00:00") == "2 January 2026, 03:04 UTC"
    assert numbers.when("some day") == "some day"
