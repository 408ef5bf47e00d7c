"""Money and energy for a training and a million samples, worked out by hand from speeds and prices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.cost import CLAIM, hourly
from harness.model.analysis import Analysis, Cost, Summary
from harness.model.run import Placement, Prices, Run
from tests import builders


def at(prices: Prices | None, run: Run | None = None) -> Analysis:
    run = run or builders.gpu_run()
    return analyse(replace(run, manifest=replace(run.manifest, prices=prices)))


def of(found: Analysis, device: str, variant: str = "baseline") -> tuple[Summary, Cost]:
    summary = next(one for one in found.summaries if (one.device, one.variant) == (device, variant))
    cost = next(one for one in found.costs if (one.device, one.variant) == (device, variant))
    return summary, cost


def test_an_hour_of_the_most_specific_price_counts() -> None:
    both = Prices(machine=1.0, cpu=0.2, gpu=0.5)
    assert (hourly(both, "cpu"), hourly(both, "gpu0")) == (0.2, 0.5)
    assert (hourly(Prices(machine=1.0), "cpu"), hourly(Prices(machine=1.0), "gpu0+gpu1")) == (1.0, 1.0)
    assert hourly(Prices(machine=1.0, each_gpu=3.0), "gpu0+gpu1") == 6.0
    assert hourly(Prices(gpu=1.0), "cpu") is None
    assert hourly(None, "cpu") is None


def test_money_follows_from_speed_and_price() -> None:
    found = at(Prices(cpu=0.2, gpu=0.526))
    for device, rate in (("cpu", 0.2), ("gpu0", 0.526)):
        summary, cost = of(found, device)
        assert summary.training_s is not None
        assert cost.training is not None
        assert cost.per_million_samples is not None
        assert cost.training.median == pytest.approx(summary.training_s.median / 3600 * rate)
        speed, million = summary.throughput, cost.per_million_samples
        assert million.median == pytest.approx(1e6 / speed.median / 3600 * rate)
        assert (million.low, million.high) == pytest.approx(
            (1e6 / speed.high / 3600 * rate, 1e6 / speed.low / 3600 * rate)
        )
        assert million.low < million.median < million.high
        assert million.n == speed.n


def test_each_of_several_workers_has_a_machine_that_is_paid_for() -> None:
    run = builders.cpu_run()
    placement = Placement(nodes=("a", "b", "c", "d"), machines=(0, 1, 2, 3))
    four = replace(run, manifest=replace(run.manifest, placement=placement))
    (_, one_cost), (_, four_cost) = (of(at(Prices(machine=0.5), each), "cpu") for each in (run, four))
    assert (one_cost.per_hour, four_cost.per_hour) == (0.5, 2.0)
    assert one_cost.per_million_samples is not None
    assert four_cost.per_million_samples is not None
    assert four_cost.per_million_samples.median == pytest.approx(4 * one_cost.per_million_samples.median)


def test_energy_needs_no_price_and_its_money_does() -> None:
    summary, cost = of(at(None), "gpu0")
    assert summary.energy_j_per_sample is not None
    assert cost.training_kwh is not None
    assert cost.training_kwh.median == pytest.approx(
        summary.energy_j_per_sample.median * 50_000 * 100 / 3.6e6
    )
    assert cost.per_hour is cost.training is cost.electricity_training is None
    _, cost = of(at(Prices(electricity_per_kwh=0.3)), "gpu0")
    assert cost.training_kwh is not None
    assert cost.electricity_training is not None
    assert cost.electricity_training.median == pytest.approx(cost.training_kwh.median * 0.3)


def test_cpu_over_gpu_in_money_is_the_time_times_the_prices() -> None:
    found = at(Prices(cpu=0.2, gpu=0.8))
    by_variant = {one.variant: one for one in found.cost_ratios}
    assert set(by_variant) == {"baseline", "tuned"}
    for one in by_variant.values():
        assert one.ratio.median == pytest.approx(one.time_ratio.median / 4)
        assert one.break_even == pytest.approx(0.2 * one.time_ratio.median)
    assert found.cost_claim == CLAIM


def test_without_a_price_on_both_sides_nothing_is_claimed() -> None:
    for prices in (None, Prices(gpu=1.0), Prices(electricity_per_kwh=1.0)):
        found = at(prices)
        assert found.cost_ratios == ()
        assert found.cost_claim is None


def test_a_workload_that_trains_nothing_has_no_training_to_pay() -> None:
    run = builders.gpu_run()
    found = at(Prices(machine=1.0), replace(run, workloads=(replace(run.workloads[0], task="infer"),)))
    _, cost = of(found, "gpu0")
    assert cost.training is cost.training_kwh is None
    assert cost.per_million_samples is not None
