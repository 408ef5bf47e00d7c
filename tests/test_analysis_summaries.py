"""Summaries: what is counted, over which windows, and what is kept apart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.align import increase, steady_means
from harness.analysis.energy import CPU_COUNTER, GPU_COUNTER, energy_per_sample
from harness.model.analysis import Summary
from harness.model.run import Metric, Run, Series, Status, Trial, Window
from tests.builders import SECOND_NS, cpu_run, failed_run, four_gpu_run, gpu_run, hostile_run, interrupted_run
from tests.builders_telemetry import lost
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED


def summary(run: Run, device: str, variant: str) -> Summary:
    return next(one for one in analyse(run).summaries if (one.device, one.variant) == (device, variant))


def window(start_s: float, end_s: float, variant: str = BASELINE, **fields: int) -> Window:
    return Window(
        **{
            "variant": variant, "index": 0, "start_ns": int(start_s * SECOND_NS), "end_ns": int(end_s * SECOND_NS),
            "steps": 10, "samples": 100, "wait_ns": -1, **fields,
        }
    )  # fmt: skip


def trial_with(windows: tuple[Window, ...], *series: Series) -> Trial:
    return replace(gpu_run(trials=1).trials[1], windows=windows, steps=(), telemetry=series)


def nvml(seconds: list[float], **columns: list[float]) -> Series:
    return Series(
        source="nvml",
        device="gpu0",
        t_ns=np.array([int(s * SECOND_NS) for s in seconds], dtype=np.int64),
        columns={name: np.array(values, dtype=np.float64) for name, values in columns.items()},
    )


def test_a_trials_throughput_is_all_its_samples_over_all_its_time() -> None:
    run = cpu_run(trials=1)
    trial = replace(
        run.trials[0],
        windows=(window(100, 101, samples=100), window(102, 105, samples=700, steps=70)),
    )
    one = summary(replace(run, trials=(trial,)), "cpu", BASELINE)
    assert one.throughput.median == pytest.approx(800 / 4)
    assert one.step_time.median == pytest.approx(4 / 80)
    assert one.batch_size == 10
    assert one.throughput.n == 1


def test_speeds_are_those_that_the_run_was_made_with() -> None:
    run = gpu_run(trials=5)
    assert summary(run, "cpu", BASELINE).throughput.median == pytest.approx(32 / 0.003, rel=0.05)
    assert summary(run, "gpu0", TUNED).throughput.median == pytest.approx(32 / 0.0009, rel=0.05)
    assert summary(run, "gpu0", BASELINE).throughput.n == 5
    assert len(summary(run, "gpu0", BASELINE).trial_ids) == 5


def test_only_trials_that_went_well_count() -> None:
    run = gpu_run(trials=3)
    broken = replace(run.trials[0], status=Status.TIMEOUT)
    assert summary(replace(run, trials=(broken, *run.trials[1:])), "cpu", BASELINE).throughput.n == 2
    assert {one.device for one in analyse(failed_run()).summaries} == {"cpu"}
    assert summary(interrupted_run(), "gpu0", BASELINE).throughput.n == 1


def test_training_is_projected_to_the_published_epochs_without_cold_start() -> None:
    one = summary(cpu_run(), "cpu", BASELINE)
    assert one.training_s is not None and one.training_projected
    assert one.training_s.median == pytest.approx(math.ceil(50_000 / 32) * one.step_time.median * 100)
    assert summary(cpu_run(), "cpu", INPUT_ONLY).training_s is None
    assert summary(cpu_run(), "cpu", MODEL_ONLY).training_s is None


def test_a_training_that_ran_to_its_end_is_not_projected() -> None:
    run = cpu_run(trials=3)
    first = run.trials[0]
    measured = Metric(variant=BASELINE, name="training_s", value=481.0)
    run = replace(run, trials=(replace(first, metrics=(*first.metrics, measured)), *run.trials[1:]))
    one = summary(run, "cpu", BASELINE)
    assert one.training_s is not None and one.training_s.median == 481.0
    assert not one.training_projected


def test_synthetic_data_has_no_epochs_to_project() -> None:
    assert summary(four_gpu_run(), "gpu0", BASELINE).training_s is None


def test_cold_start_holds_shared_phases_and_the_variants_own_in_order() -> None:
    one = summary(gpu_run(), "gpu0", TUNED)
    assert [name for name, _ in one.cold_start] == ["import", "data", "build", "first-step", "warm-up"]
    assert dict(one.cold_start)["first-step"] == pytest.approx(1.8)
    assert dict(summary(gpu_run(), "gpu0", INPUT_ONLY).cold_start)["first-step"] == pytest.approx(0.5)


def test_waiting_is_a_share_and_none_where_it_cannot_be_seen() -> None:
    assert summary(cpu_run(), "cpu", BASELINE).wait_share == pytest.approx(0.04, rel=0.01)
    assert summary(cpu_run(), "cpu", MODEL_ONLY).wait_share is None


def test_quantiles_of_single_steps() -> None:
    quantiles = summary(cpu_run(), "cpu", BASELINE).step_quantiles
    assert list(quantiles) == ["p50", "p90", "p99", "max"]
    assert quantiles["p50"] == pytest.approx(0.003, rel=0.05)
    assert quantiles["p50"] < quantiles["p90"] < quantiles["p99"] < quantiles["max"]


def test_gauges_are_means_over_the_variants_windows_only() -> None:
    series = nvml([0, 1, 2, 3, 4, 5, 6], gpu_util_pct=[99, 99, 10, 20, 99, math.nan, 50])
    trial = trial_with((window(0.5, 3.5), window(3.6, 6.5, TUNED)), series)
    means = steady_means(trial)
    assert means[BASELINE] == {"nvml.gpu0.gpu_util_pct": 15.0}, (
        "the reading at 1 speaks of time before 0.5 too"
    )
    assert means[TUNED] == {"nvml.gpu0.gpu_util_pct": 50.0}


def test_a_variant_that_is_read_rarely_keeps_every_reading() -> None:
    series = nvml([0, 1, 2], gpu_util_pct=[1, 2, 3])
    assert steady_means(trial_with((window(0.5, 1.5),), series))[BASELINE] == {"nvml.gpu0.gpu_util_pct": 2.0}


def test_counters_become_increase_over_time_and_masks_have_no_mean() -> None:
    series = nvml([0, 1, 2, 3], energy_j=[0, 100, 300, 600], throttle_reasons=[0, 4, 4, 0])
    means = steady_means(trial_with((window(0.5, 2.5),), series))
    # 50 J at 0.5 s and 450 J at 2.5 s, interpolated.
    assert means[BASELINE] == {"nvml.gpu0.energy_j_per_s": pytest.approx(200.0)}


def test_a_counter_read_less_often_than_windows_are_long_has_no_variant() -> None:
    series = nvml([0, 2, 4, 6], energy_j=[0, 800, 1000, 1800])
    short = (window(0.5, 1.5), window(1.5, 2.5, TUNED), window(2.5, 3.5))
    assert steady_means(trial_with(short, series)) == {BASELINE: {}, TUNED: {}}


def test_a_metric_without_a_reading_in_the_windows_is_absent() -> None:
    series = nvml([0, 10], gpu_util_pct=[1, 2])
    assert steady_means(trial_with((window(4, 5),), series))[BASELINE] == {}


def test_per_core_columns_are_left_to_the_timeline() -> None:
    keys = summary(cpu_run(), "cpu", BASELINE).telemetry
    assert "host.host.cpu_util_pct" in keys
    assert not any("core" in key for key in keys)


def test_increase_is_unknown_beyond_the_readings_and_over_a_reset() -> None:
    series = nvml([1, 2, 3, 4], energy_j=[10, 20, 0, 10])
    windows = [window(0.5, 1.5), window(1, 2), window(1.5, 3), window(3, 4), window(3.5, 4.5)]
    found = increase(series.t_ns, series.columns["energy_j"], windows)
    assert found[[1, 3]].tolist() == [10.0, 10.0]
    assert np.isnan(found[[0, 2, 4]]).all()


def test_times_near_the_limit_of_float_stay_exact() -> None:
    origin = 10**18  # 31 years of uptime: float64 rounds these to 128 ns
    t_ns = origin + np.arange(4, dtype=np.int64) * 1000
    windows = [replace(window(0, 1), start_ns=origin + 500, end_ns=origin + 1500)]
    assert increase(t_ns, np.array([0.0, 1, 2, 3]), windows)[0] == pytest.approx(1.0, abs=1e-9)


def test_energy_from_the_counter_and_by_integration_agree() -> None:
    run = gpu_run()
    counted = summary(run, "gpu0", BASELINE)
    integrated = summary(lost(run, "nvml_slow", "energy_j"), "gpu0", BASELINE)
    assert counted.energy_source == f"{GPU_COUNTER}, shared out over time by instant GPU power"
    assert integrated.energy_source == "integrated instant GPU power"
    assert counted.energy_j_per_sample is not None and integrated.energy_j_per_sample is not None
    assert counted.energy_j_per_sample.median == pytest.approx(125 * 0.0056 / 32, rel=0.05)
    assert integrated.energy_j_per_sample.median == pytest.approx(
        counted.energy_j_per_sample.median, rel=0.03
    )


def test_the_lagging_average_is_the_last_resort() -> None:
    sources = []
    run = gpu_run()
    for source, *columns in (
        ("nvml", "power_instant_w", "power_usage_w"), ("nvml_slow", "energy_j"), ("nvml_slow", "power_average_w")
    ):  # fmt: skip
        run = lost(run, source, *columns)
        sources.append(summary(run, "gpu0", BASELINE).energy_source)
    assert sources == [GPU_COUNTER, "integrated average GPU power", ""]


def test_energy_of_several_cards_is_their_sum_and_needs_them_all() -> None:
    run = four_gpu_run()
    one, four = summary(run, "gpu0", BASELINE), summary(run, "gpu0+gpu1+gpu2+gpu3", BASELINE)
    assert one.energy_j_per_sample is not None and four.energy_j_per_sample is not None
    assert four.energy_j_per_sample.median == pytest.approx(one.energy_j_per_sample.median / 0.9, rel=0.05)
    trial = next(each for each in run.trials if each.device == "gpu0+gpu1")
    lost = replace(trial, telemetry=tuple(each for each in trial.telemetry if each.device != "gpu1"))
    assert energy_per_sample(lost, BASELINE) is None


def test_energy_of_the_processor_is_packages_and_memory_but_no_part_twice() -> None:
    def zone(name: str, watts: float) -> Series:
        return replace(nvml([0, 10], energy_j=[0, watts * 10]), source="rapl", device=name)

    trial = replace(
        trial_with(
            (window(1, 3, samples=100),),
            zone("package-0", 100),
            zone("package-0_core", 60),
            zone("package-0_dram", 20),
            zone("package-1", 30),
            zone("psys", 400),
        ),
        device="cpu",
    )
    found = energy_per_sample(trial, BASELINE)
    assert found is not None
    assert found[0] == pytest.approx(150 * 2 / 100)
    assert found[1] == CPU_COUNTER


def test_accuracy_is_held_against_the_declaration_on_procedural_data() -> None:
    run = hostile_run()  # procedural
    one = summary(run, "cpu", BASELINE)
    assert (one.accuracy, one.accuracy_ok) == (0.24, True)
    strict = replace(run, workloads=(replace(run.workloads[0], min_accuracy=0.3),))
    assert summary(strict, "cpu", BASELINE).accuracy_ok is False
    assert summary(strict, "cpu", TUNED).accuracy_ok is None


def test_accuracy_on_real_data_only_has_to_beat_chance() -> None:
    run = cpu_run()
    run = replace(run, workloads=(replace(run.workloads[0], min_accuracy=0.9),))
    assert summary(run, "cpu", BASELINE).accuracy_ok is True  # 24 % of 100 classes
    guess = tuple(
        replace(trial, metrics=(Metric(variant=BASELINE, name="accuracy", value=0.0145),))
        for trial in run.trials
    )
    assert summary(replace(run, trials=guess), "cpu", BASELINE).accuracy_ok is False


def test_order_is_that_of_the_plan() -> None:
    keys = [(one.device, one.variant) for one in analyse(gpu_run()).summaries]
    variants = [BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED]
    assert keys == [("cpu", variant) for variant in variants] + [("gpu0", variant) for variant in variants]
