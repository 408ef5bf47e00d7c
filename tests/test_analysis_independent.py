"""Runs as independent samples: Welch's intervals, and what they can find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.analysis.independent import STOPPED_WIDER, gap, mean_gap, sample


class TestGap:
    def test_is_the_ratio_of_geometric_means(self) -> None:
        one = gap(sample([2.0, 8.0]), sample([1.0, 4.0]))
        assert one.estimate().median == pytest.approx(2.0)

    def test_a_sample_alone_has_its_geometric_mean(self) -> None:
        found = sample([100.0, 400.0]).estimate("samples/s")
        assert (found.median, found.unit, found.n) == (pytest.approx(200.0), "samples/s", 2)
        assert found.low < 100 < 400 < found.high

    def test_welch_by_hand(self) -> None:
        """Worked with the formulas of Welch 1947: variances 4e-4 of three and 1e-4 of five."""
        top = np.exp(np.array([-0.02, 0.0, 0.02]))
        bottom = np.exp(np.array([-1, -1, 0, 1, 1]) * 0.01)
        one = gap(sample(top), sample(bottom))
        assert one.error == pytest.approx(math.sqrt(4e-4 / 3 + 1e-4 / 5))
        assert one.degrees == pytest.approx((4e-4 / 3 + 2e-5) ** 2 / ((4e-4 / 3) ** 2 / 2 + 2e-5**2 / 4))

    def test_one_trial_has_no_interval(self) -> None:
        one = gap(sample([3.0]), sample([2.0, 2.1, 2.2]))
        assert one.estimate().n == 1
        assert one.detectable() is None

    def test_values_that_are_no_speeds_are_left_out(self) -> None:
        assert sample([0.0, -1.0, math.nan]) is None
        assert sample([0.0, 5.0]).n == 1

    def test_a_run_that_stopped_when_it_agreed_counts_as_noisier(self) -> None:
        values = [1.0, 1.01, 1.02]
        fixed, adaptive = (
            gap(sample(values), sample(values)),
            gap(sample(values, adaptive=True), sample(values, adaptive=True)),
        )
        assert adaptive.error == pytest.approx(STOPPED_WIDER * fixed.error)

    def test_the_mean_of_several_is_narrower_than_each(self) -> None:
        one = gap(sample([1.0, 1.02, 1.04]), sample([1.0, 1.02, 1.04]))
        mean = mean_gap([one, one, one, one])
        assert mean.error == pytest.approx(one.error / 2)
        assert mean.degrees > one.degrees


class TestWhatCanBeFound:
    def test_a_slowdown_of_the_detectable_size_is_found_so_often(self) -> None:
        """Over simulated trials, at the noise and number for which 5 % should just be found."""
        random = np.random.default_rng(7)
        found = 0
        for _ in range(400):
            base = sample(np.exp(random.normal(0, 0.0175, 5)))
            one = gap(sample(np.exp(random.normal(math.log(0.95), 0.0175, 5))), base)
            estimate = one.estimate()
            found += estimate.high < 1 and estimate.low <= 0.95
        assert found / 400 > 0.93
