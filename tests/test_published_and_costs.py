from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.summaries import hourly
from harness.errors import UsageError
from harness.model.analysis import Analysis, CaveatKind, PublishedComparison, VariantResult
from harness.model.run import Prices, Run
from harness.model.workload import Published
from harness.run.resolve import read_prices
from tests import builders
from tests.builders import cpu_run, four_gpu_run, gpu_run
from tests.errors import user_error
from workloads.protocol import Requests
from workloads.variants import BASELINE


def compared(run: Run, **fields: object) -> PublishedComparison:
    """Return the comparison of one published number of the first workload on its first device."""
    number = Published(source="A blog, 2020", system="A GPU", device="gpu", unit="samples/s", value=100.0)
    first = replace(run.workloads[0], published=(replace(number, **fields),))
    return analyse(replace(run, workloads=(first, *run.workloads[1:]))).published[0]


def speed(run: Run, device: str) -> float:
    return baseline_of(analyse(run), device).throughput.median


def test_the_factor_compares_speeds_even_for_published_times() -> None:
    run = gpu_run()
    each = compared(run, value=speed(run, "gpu0") / 4)
    assert each.factor.median == 4
    seconds = compared(run, unit="s", value=1e9)
    assert seconds.factor.median == 1e9 / seconds.measured.median, "less time means more speed"
    here = speed(run, "gpu0")
    for low, high, factor in ((0.9, 1.2, 1.0), (2.0, 3.0, 0.5), (0.25, 0.5, 2.0)):
        nearer_end = compared(run, value=here * low, upto=here * high)
        assert nearer_end.factor.median == pytest.approx(factor)
    not_run = compared(run, variant="opt:no-augment")
    assert (not_run.measured, not_run.factor) == (None, None)
    for unit in ("accuracy", "utilisation"):
        share = compared(run, unit=unit, value=0.8)
        assert share.factor is None and 0 <= share.measured.median <= 1
    for fields in ({"device": "gpu"}, {"device": "cpu", "unit": "furlongs"}):
        unknown = compared(cpu_run(), **fields)
        assert (unknown.measured, unknown.factor) == (None, None)


@pytest.mark.parametrize(
    ("given", "published", "expected"),
    [
        ({"batch_size": "64", "NONE": "3"}, True, ["batch_size=64"]),
        ({"batch_size": "64"}, False, []),
        ({"BATCH_SIZE": "32,64"}, True, []),
    ],
)
def test_only_parameters_of_published_numbers_can_differ_from_them(given, published, expected) -> None:
    run = cpu_run()
    options = replace(run.manifest.options, params=given)
    first = run.workloads[0] if published else replace(run.workloads[0], published=())
    run = replace(run, manifest=replace(run.manifest, options=options), workloads=(first,))
    caveats = analyse(run).caveats
    assert [each.text for each in caveats if each.kind is CaveatKind.PARAMETERS] == expected


def test_gpu_numbers_are_compared_with_single_gpus_in_their_own_unit() -> None:
    cpu, gpu, ratio = analyse(gpu_run()).published
    assert [(each.device, each.number.value, each.number.unit) for each in (cpu, gpu, ratio)] == [
        ("cpu", 1075, "s"), ("gpu0", 343, "s"), ("gpu0", 3.1, "ratio"),
    ]  # fmt: skip
    assert cpu.measured.unit == "s"
    assert cpu.measured.median == pytest.approx(1563 * 0.003 * 100, rel=0.05)
    assert gpu.measured.median > 343
    assert ratio.measured.median == pytest.approx(0.54, rel=0.06)
    of_four = analyse(four_gpu_run()).published
    assert {each.device for each in of_four} == {"gpu0"}
    assert of_four[0].measured.median == pytest.approx(256 / 0.29, rel=0.05)


def priced(prices: Prices | None, run: Run | None = None) -> Analysis:
    run = run or builders.gpu_run()
    return analyse(replace(run, manifest=replace(run.manifest, prices=prices)))


def baseline_of(result: Analysis, device: str) -> VariantResult:
    return next(case.variants[BASELINE] for case in result.cases if case.device == device)


@pytest.mark.parametrize(
    ("prices", "device", "rate"),
    [
        (Prices(machine=1.0, cpu=0.2, gpu=0.5), "cpu", 0.2),
        (Prices(machine=1.0, cpu=0.2, gpu=0.5), "gpu0", 0.5),
        (Prices(machine=1.0), "gpu0+gpu1", 1.0),
        (Prices(machine=1.0, each_gpu=3.0), "gpu0+gpu1", 6.0),
        (None, "cpu", None),
    ],
)
def test_the_most_specific_hourly_price_is_used(prices, device, rate):
    assert hourly(prices, device) == rate


def test_costs_follow_from_speed_energy_and_prices():
    result = priced(Prices(cpu=0.2, gpu=0.526, electricity_per_kwh=0.3))
    for device, rate in (("cpu", 0.2), ("gpu0", 0.526)):
        baseline = baseline_of(result, device)
        assert baseline.cost.training.median == pytest.approx(baseline.training_s.median / 3600 * rate)
        speed, million = baseline.throughput, baseline.cost.per_million_samples
        assert million.n == speed.n
        assert (million.low, million.median, million.high) == pytest.approx(
            tuple(1e6 / each / 3600 * rate for each in (speed.high, speed.median, speed.low))
        )
    kwh = baseline.energy_j_per_sample.median * 50_000 * 100 / 3.6e6
    assert baseline.cost.electricity.median == pytest.approx(0.3 * kwh)
    run = builders.gpu_run()
    infer = replace(run, workloads=(replace(run.workloads[0], requests=Requests(batch_sizes=(1,))),))
    cost = baseline_of(priced(Prices(machine=1.0), infer), "gpu0").cost
    assert cost.training is None and cost.per_million_samples is not None


@pytest.mark.parametrize(
    "text",
    ["0,526", "cpu=1,cpu=2", "currency=EUR", "cheap", "gpu=-1", "gpu=nan", "tpu=1"],
)  # fmt: skip
def test_amounts_are_read_and_mistakes_name_what_to_try(text: str) -> None:
    assert read_prices("0.526") == Prices(machine=0.526)
    assert read_prices("cpu=0.2,gpu=0.526") == Prices(cpu=0.2, gpu=0.526)
    several = Prices(each_gpu=3.0, electricity_per_kwh=0.3, currency="EUR")
    assert read_prices("each-gpu=3, electricity=0.3, currency=EUR") == several
    with user_error(UsageError):
        read_prices(text)
