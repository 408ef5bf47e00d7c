"""The benchmark of compare's error rates: its arithmetic and its stopping rule."""

import numpy as np
import pytest

from benchmarks.power import measure, trials_needed
from harness.defaults import PROFILES
from harness.model.comparison import Extract
from harness.run.runner import Stopping
from tests.comparisons import again, whole
from tests.test_stopping import planned, trial


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.1])
def test_simulated_runs_stop_after_the_same_trial_as_real_ones(noise: float) -> None:
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
        assert trials_needed(values.tolist(), profile) == count


def test_a_slowdown_far_above_the_noise_is_always_detected() -> None:
    def draw(random: np.random.Generator) -> Extract:
        return again(whole(), int(random.integers(1 << 30)))

    rates = measure(draw, 20, 0.2)
    assert rates.detected == 20
    assert rates.no_difference >= 17
    assert rates.trials == 5
