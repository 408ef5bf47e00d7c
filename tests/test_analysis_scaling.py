"""Scaling over workers: efficiency index by index, traffic in the windows, what a step takes longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.analysis.scaling import Point, scaling
from harness.model import Metric, Run, Series, Window
from tests.builders import cpu_run
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, TUNED

SECOND = 1_000_000_000


def run_of(speeds: list[float], *, batch: int, sent: float, exchange_s: float) -> Run:
    """Make a run of trials that each trained one second at a speed, sending so many bytes meanwhile."""
    whole = cpu_run(trials=len(speeds))
    t_ns = np.arange(0, 5 * SECOND, SECOND // 10, dtype=np.int64)
    trials = tuple(
        replace(
            trial,
            windows=(
                Window(leg=AS_WRITTEN, index=0, start_ns=SECOND, end_ns=2 * SECOND,
                       steps=round(speed / batch), samples=round(speed), wait_ns=-1),
                Window(leg=INPUT_ONLY, index=0, start_ns=2 * SECOND, end_ns=3 * SECOND, steps=1, samples=9,
                       wait_ns=-1),
            ),
            metrics=(Metric(leg="", name="collective_s", value=exchange_s, unit="s"),
                     Metric(leg="", name="gradient_bytes", value=4e6, unit="B")),
            telemetry=tuple(
                Series(source="network", device=name, t_ns=t_ns,
                       columns={"net_sent_bytes": share * sent * t_ns / SECOND})
                for name, share in (("lo", 0.25), ("eth0", 0.75))
            ),
        )
        for trial, speed in zip(whole.trials, speeds, strict=True)
    )  # fmt: skip
    return replace(whole, trials=trials)


def points() -> dict[tuple[str, int], Point]:
    one = run_of([1000.0, 2000.0, 1000.0], batch=100, sent=0.0, exchange_s=0.001)
    two = run_of([1600.0, 3200.0, 1600.0], batch=200, sent=50e6, exchange_s=0.02)
    return {(point.leg, point.workers): point for point in scaling({2: two, 1: one})}


def test_efficiency_is_taken_index_by_index() -> None:
    two = points()[AS_WRITTEN, 2]
    assert two.throughput.median == 1600
    assert two.efficiency is not None
    # The second trial met a machine twice as fast on both sides, which cancels out.
    assert (two.efficiency.low, two.efficiency.median, two.efficiency.high) == pytest.approx((0.8, 0.8, 0.8))
    assert points()[AS_WRITTEN, 1].efficiency.median == 1


def test_what_a_step_takes_longer_and_what_travels() -> None:
    two = points()[AS_WRITTEN, 2]
    assert two.step_time.median == pytest.approx(0.125)
    assert two.added_s == pytest.approx(0.025)
    assert two.exchange_s == 0.02
    assert two.gradient_bytes == 4e6
    assert two.sent_bytes_per_s == pytest.approx(50e6, rel=0.01)


def test_only_legs_that_train_are_shown() -> None:
    assert {leg for leg, _ in points()} <= {AS_WRITTEN, TUNED, "model-only"}
    assert INPUT_ONLY not in {leg for leg, _ in points()}


def test_without_one_worker_there_is_no_efficiency() -> None:
    (point,) = scaling({2: run_of([1600.0], batch=200, sent=0.0, exchange_s=0.02)})
    assert point.efficiency is None
    assert point.added_s is None
