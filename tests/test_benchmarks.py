import json
import math

import numpy as np
import pytest

from benchmarks.power import measure, trials_needed
from benchmarks.sampling import Turn, speed, table
from harness.cli.list import FOOTPRINTS
from harness.defaults import PROFILES
from harness.model.comparison import Extract
from harness.run.catalogue import built_in
from harness.run.runner import Stopping
from tests.comparisons import again, whole
from tests.test_runner import planned, trial

SECOND = 1_000_000_000


def turn(sampler: str, number: int, **changed: object) -> Turn:
    defaults = {"sampler": sampler, "round": number, "start_ns": 0, "end_ns": 2 * SECOND, "cpu_s": 0.02,
             "memory_bytes": 3 << 20, "speed": 1000.0}  # fmt: skip
    return Turn(**{**defaults, **changed})


@pytest.mark.slow
def test_only_windows_entirely_within_a_turn_count() -> None:
    windows = [(0, 2, 1000), (2, 4, 10), (4, 6, 30), (6, 9, 1000)]
    assert speed(windows, 2, 8) == pytest.approx(40e9 / 4)
    assert math.isnan(speed([(0, 2, 10)], 1, 9))


@pytest.mark.slow
def test_slowdown_is_relative_to_the_same_round_and_needs_windows() -> None:
    turns = [
        turn("none", 0), turn("x", 0, speed=800.0), turn("none", 1, speed=500.0), turn("x", 1, speed=400.0),
        turn("y", 0, speed=float("nan")),
    ]  # fmt: skip
    lines = list(table(turns, {"z": "no driver."}))
    assert lines[2:4] == ["| x | +25.00 (+25.00 to +25.00) | 1.00 | 3 |", "| y | - | 1.00 | 3 |"]
    assert lines[-1] == "Left out: z, no driver."


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


def test_the_table_has_only_existing_workloads() -> None:
    assert set(json.loads(FOOTPRINTS.read_text())) <= {entry.workload.name for entry in built_in()}
