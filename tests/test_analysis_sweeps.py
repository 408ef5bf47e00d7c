from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.sweeps import sweeps
from harness.model.analysis import CaveatKind, Sweep, SweepPoint
from harness.model.run import Run, Status
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
