from collections.abc import Sequence

import numpy as np

from harness.analysis.sweeps import may_be_best
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


def test_clearly_slower_points_are_excluded() -> None:
    random = np.random.default_rng(2)
    sweeps = [may_be_best(simulated(random, [100.0, 99.9, 80.0, 60.0], 3, 0.01)) for _ in range(50)]
    assert all(result <= {point(0), point(1)} for result in sweeps)
    assert sum(result == {point(0), point(1)} for result in sweeps) > 40


def test_drift_common_to_all_points_cancels_out() -> None:
    """Trials are interleaved, so even 20 % drift of the machine does not hide a difference."""
    random = np.random.default_rng(3)
    sweeps = [simulated(random, [100.0, 95.0], 4, 0.002, drift=0.2) for _ in range(20)]
    assert {may_be_best(speeds) for speeds in sweeps} == {frozenset({point(0)})}


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
