from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.sweeps import may_be_best, sweeps
from harness.model.analysis import CaveatKind, Sweep, SweepPoint
from harness.model.run import Point, Run, Status
from reports.messages import banners
from tests import builders
from tests.builders_sweep import sweep_run


def only(run: Run) -> Sweep:
    (result,) = sweeps(run)
    return result


def point_at(sweep: Sweep, **values: int) -> SweepPoint:
    return next(each for each in sweep.points if dict(each.point) == values)


def test_all_planned_points_are_present_in_order() -> None:
    sweep = only(sweep_run())
    assert sweep.axes == ("batch_size", "steps_per_execution")
    assert [tuple(dict(each.point).values()) for each in sweep.points] == [
        (32, 1), (32, 10), (128, 1), (128, 10), (4096, 1), (4096, 10),
    ]  # fmt: skip


def test_the_speed_of_a_point_uses_only_its_own_trials() -> None:
    each = point_at(only(sweep_run(noise=0.0)), batch_size=128, steps_per_execution=10)
    assert each.throughput.median == pytest.approx(128 / (0.001 + 0.000002 + 128 * 2e-5), rel=0.01)
    assert each.throughput.n == 3


def test_the_best_point_its_ties_and_failures() -> None:
    sweep = only(sweep_run())
    assert dict(sweep.best.point)["batch_size"] == 128
    assert [each.tied for each in sweep.points] == [False, False, True, True, None, None]
    assert point_at(sweep, batch_size=32, steps_per_execution=1).over_best.high < 1
    failed = point_at(sweep, batch_size=4096, steps_per_execution=1)
    assert (failed.status, failed.throughput) == (Status.OUT_OF_MEMORY, None)
    assert "memory limit" in failed.message


def test_unmeasured_points_and_single_trials_are_not_ranked() -> None:
    run = sweep_run()
    cut = only(replace(run, trials=run.trials[:2]))
    assert [each.status for each in cut.points] == [Status.OK, Status.OK, None, None, None, None]
    assert {each.tied for each in only(sweep_run(trials=1)).points} == {None}
    assert only(replace(run, trials=())).best is None


def test_sweep_points_appear_only_in_sweeps() -> None:
    """Summaries would average over points with different parameters."""
    result = analyse(sweep_run())
    assert result.summaries == result.comparisons == result.published == result.findings == result.costs == ()
    assert result.step_times == result.pipelines == ()
    assert analyse(builders.gpu_run()).sweeps == ()


def test_running_out_of_memory_is_a_result_of_a_sweep_not_a_failure() -> None:
    result = analyse(sweep_run())
    assert any(trial.status is Status.OUT_OF_MEMORY for trial in result.run.trials)
    assert CaveatKind.FAILED_TRIALS not in {each.kind for each in result.caveats}
    assert not [text for text in banners(result.run) if "failed" in text]


def test_each_device_and_variant_is_a_separate_sweep() -> None:
    cpu, gpu = sweep_run(), sweep_run(device="gpu0")
    both = replace(cpu, planned=cpu.planned + gpu.planned, trials=cpu.trials + gpu.trials)
    assert [(each.device, each.variant, len(each.points)) for each in sweeps(both)] == [
        ("cpu", "baseline", 6), ("gpu0", "baseline", 6),
    ]  # fmt: skip


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
