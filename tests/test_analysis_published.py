from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.model.analysis import Key, PublishedComparison, find_by_key
from harness.model.run import Run
from harness.model.workload import Published
from tests.builders import cpu_run, four_gpu_run, gpu_run
from workloads.protocol import BASELINE


def compared(run: Run, **fields: object) -> PublishedComparison:
    """Return the comparison of one published number of the first workload on its first device."""
    number = Published(source="A blog, 2020", system="A GPU", device="gpu", unit="samples/s", value=100.0)
    first = replace(run.workloads[0], published=(replace(number, **fields),))
    return analyse(replace(run, workloads=(first, *run.workloads[1:]))).published[0]


def speed(run: Run, device: str) -> float:
    return find_by_key(analyse(run).summaries, Key(run.workloads[0].name, device, BASELINE)).throughput.median


def test_the_factor_compares_speeds_even_for_published_times() -> None:
    run = gpu_run()
    each = compared(run, value=speed(run, "gpu0") / 4)
    assert each.factor.median == 4
    seconds = compared(run, unit="s", value=1e9)
    assert seconds.factor.median == 1e9 / seconds.measured.median, "less time means more speed"


@pytest.mark.parametrize(("low", "high", "factor"), [(0.9, 1.2, 1.0), (2.0, 3.0, 0.5), (0.25, 0.5, 2.0)])
def test_a_published_range_is_compared_at_its_nearer_end(low: float, high: float, factor: float) -> None:
    run = gpu_run()
    here = speed(run, "gpu0")
    each = compared(run, value=here * low, upto=here * high)
    assert each.factor.median == pytest.approx(factor)


def test_the_baseline_is_used_if_the_published_settings_did_not_run() -> None:
    each = compared(gpu_run(), variant="opt:no-augment")
    assert (each.measured_variant, each.other_variant) == (BASELINE, True)
    assert not compared(gpu_run()).other_variant


@pytest.mark.parametrize("unit", ["accuracy", "utilisation"])
def test_shares_have_no_factor(unit: str) -> None:
    each = compared(gpu_run(), unit=unit, value=0.8)
    assert each.factor is None
    assert 0 <= each.measured.median <= 1


@pytest.mark.parametrize("fields", [{"device": "gpu"}, {"device": "cpu", "unit": "furlongs"}])
def test_numbers_without_a_measurement_have_no_factor(fields: dict[str, str]) -> None:
    each = compared(cpu_run(), **fields)
    assert (each.measured, each.factor, each.other_variant) == (None, None, False)
    assert each.measured_variant == BASELINE


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
