"""The benchmark of how often compare is wrong: its own arithmetic, and that it stops as a run does."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.power import measure, share, slowed, stopped
from harness.defaults import PROFILES
from harness.model.comparison import Extract
from harness.run.stopping import Stopping
from tests.comparisons import again, whole
from tests.test_stopping import planned, trial


def test_rates_are_written_with_the_interval_of_clopper_and_pearson() -> None:
    assert share(8, 10) == "80.0% (44.4% to 97.5%)"


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.1])
def test_stops_after_as_many_trials_as_a_run_does(noise: float) -> None:
    profile = PROFILES["quick"]
    for seed in range(6):
        values = np.exp(np.random.default_rng(seed).normal(0, noise, profile.max_trials))
        stopping = Stopping(profile)
        count = 0
        for index, value in enumerate(values):
            if not stopping.should_run(planned(index)):
                break
            stopping.add(planned(index), trial(value * 1e6))
            count += 1
        assert stopped(values.tolist(), profile) == count


def test_one_workload_is_slowed_and_no_other() -> None:
    run = whole()
    changed = [
        each.variant
        for each, other in zip(run.speeds, slowed(run, 0.05).speeds, strict=True)
        if each != other
    ]
    assert changed == ["baseline"]


def test_what_is_far_above_the_noise_is_always_found() -> None:
    def draw(random: np.random.Generator) -> Extract:
        return again(whole(), int(random.integers(1 << 30)))

    rates = measure(draw, 20, 0.2)
    assert rates.found == 20
    assert rates.quiet >= 17
    assert rates.trials == 5
