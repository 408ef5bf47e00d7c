import pytest

from harness.analysis.scaling import analyse_scaling
from harness.model.multi_node import ScalingPoint
from tests.builders_workers import run_of
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED


def points() -> dict[tuple[str, int], ScalingPoint]:
    single = run_of([1000.0, 2000.0, 1000.0], batch=100, exchange_s=0.001)
    two = run_of([1600.0, 3200.0, 1600.0], batch=200, exchange_s=0.02)
    return {(point.variant, point.workers): point for point in analyse_scaling({2: two, 1: single}).points}


def test_two_workers_are_compared_with_one_by_trial_index() -> None:
    both = points()
    assert {variant for variant, _ in both} <= {BASELINE, TUNED, MODEL_ONLY}, "only what trains"
    two = both[BASELINE, 2]
    assert two.throughput.median == 1600
    # The machine was twice as fast in the second trial of both runs, which cancels out.
    assert (two.efficiency.low, two.efficiency.median, two.efficiency.high) == pytest.approx((0.8, 0.8, 0.8))
    assert both[BASELINE, 1].efficiency.median == 1
    assert two.step_time.median == pytest.approx(0.125)
    assert two.added_s == pytest.approx(0.025)
    assert (two.exchange_s, two.gradient_bytes) == (0.02, 4e6)


def test_efficiency_needs_a_one_worker_run() -> None:
    (point,) = analyse_scaling({2: run_of([1600.0], batch=200, exchange_s=0.02)}).points
    assert point.efficiency is None
    assert point.added_s is None
