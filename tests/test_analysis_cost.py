from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.energy_and_cost import hourly
from harness.model.analysis import Analysis, Cost, Key, Summary, find_by_key
from harness.model.run import Prices, Run
from tests import builders
from workloads.protocol import Requests


def priced(prices: Prices | None, run: Run | None = None) -> Analysis:
    run = run or builders.gpu_run()
    return analyse(replace(run, manifest=replace(run.manifest, prices=prices)))


def cost_of(result: Analysis, device: str) -> tuple[Summary, Cost]:
    key = Key("cifar100-mlp", device, "baseline")
    return find_by_key(result.summaries, key), find_by_key(result.costs, key)


@pytest.mark.parametrize(
    ("prices", "device", "rate"),
    [
        (Prices(machine=1.0, cpu=0.2, gpu=0.5), "cpu", 0.2),
        (Prices(machine=1.0, cpu=0.2, gpu=0.5), "gpu0", 0.5),
        (Prices(machine=1.0), "gpu0+gpu1", 1.0),
        (Prices(machine=1.0, each_gpu=3.0), "gpu0+gpu1", 6.0),
        (Prices(gpu=1.0), "cpu", None),
        (None, "cpu", None),
    ],
)
def test_the_most_specific_hourly_price_is_used(prices, device, rate):
    assert hourly(prices, device) == rate


def test_costs_follow_from_speed_energy_and_prices():
    result = priced(Prices(cpu=0.2, gpu=0.526, electricity_per_kwh=0.3))
    for device, rate in (("cpu", 0.2), ("gpu0", 0.526)):
        summary, cost = cost_of(result, device)
        assert cost.training.median == pytest.approx(summary.training_s.median / 3600 * rate)
        speed, million = summary.throughput, cost.per_million_samples
        assert million.n == speed.n
        assert (million.low, million.median, million.high) == pytest.approx(
            tuple(1e6 / each / 3600 * rate for each in (speed.high, speed.median, speed.low))
        )
    kwh = summary.energy_j_per_sample.median * 50_000 * 100 / 3.6e6
    assert cost.electricity.median == pytest.approx(0.3 * kwh)


def test_inference_has_no_training_cost():
    run = builders.gpu_run()
    infer = replace(run, workloads=(replace(run.workloads[0], requests=Requests(batch_sizes=(1,))),))
    _, cost = cost_of(priced(Prices(machine=1.0), infer), "gpu0")
    assert cost.training is None and cost.per_million_samples is not None
