import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.summaries import CPU_COUNTER
from harness.analysis.sweeps import sweeps
from harness.analysis.telemetry_means import counter_increases, steady_means
from harness.model.analysis import CaveatKind, Reading, Sweep, SweepPoint, VariantResult
from harness.model.run import Metric, Run, Series, Status, Trial, Window
from reports.messages import banners
from tests import builders
from tests.builders import SECOND_NS, cpu_run, failed_run, four_gpu_run, gpu_run, hostile_run, interrupted_run
from tests.builders_telemetry import without_columns
from tests.special_runs import sweep_run
from workloads.variants import BASELINE, MODEL_ONLY, TUNED


def summary(run: Run, device: str, variant: str) -> VariantResult:
    return next(case.variants[variant] for case in analyse(run).cases if case.device == device)


def window(start_s: float, end_s: float, variant: str = BASELINE, **more: int) -> Window:
    span = {"start_ns": int(start_s * SECOND_NS), "end_ns": int(end_s * SECOND_NS)}
    counts = {"steps": 10, "samples": 100, **more}
    return Window(variant=variant, index=0, wait_ns=-1, **span, **counts)


def trial_with(windows: tuple[Window, ...], *series: Series) -> Trial:
    return replace(gpu_run(trials=1).trials[1], windows=windows, steps=(), telemetry=series)


def nvml(seconds: list[float], **columns: list[float]) -> Series:
    return Series(
        source="nvml",
        device="gpu0",
        t_ns=np.array([int(s * SECOND_NS) for s in seconds], dtype=np.int64),
        columns={name: np.array(values, dtype=np.float64) for name, values in columns.items()},
    )


class TestSpeeds:
    def test_throughput_is_all_samples_over_all_window_time(self):
        run = cpu_run(trials=1)
        windows = (window(100, 101), window(102, 105, samples=700, steps=70))
        result = summary(replace(run, trials=(replace(run.trials[0], windows=windows),)), "cpu", BASELINE)
        assert (result.throughput.median, result.throughput.n, result.batch_size) == (800 / 4, 1, 32)
        assert result.step_time.median == pytest.approx(4 / 80)
        assert summary(cpu_run(), "cpu", BASELINE).wait_share == pytest.approx(0.04, rel=0.01)
        assert summary(cpu_run(), "cpu", MODEL_ONLY).wait_share is None, "waiting is not observable"

    def test_what_a_failed_trial_has_measured_counts(self):
        run = gpu_run(trials=3)
        broken = replace(run.trials[0], status=Status.TIMEOUT)
        assert summary(replace(run, trials=(broken, *run.trials[1:])), "cpu", BASELINE).throughput.n == 3
        nothing = replace(broken, windows=())
        assert summary(replace(run, trials=(nothing, *run.trials[1:])), "cpu", BASELINE).throughput.n == 2
        assert {each.device for each in analyse(failed_run()).cases} == {"cpu"}
        assert summary(interrupted_run(), "gpu0", BASELINE).throughput.n == 2
        # Windows outside their trial were measured by another clock.
        later = replace(run.trials[0], started_ns=run.trials[0].ended_ns)
        for trials, apart in ((run.trials, False), ((later, *run.trials[1:]), True)):
            kinds = {each.kind for each in analyse(replace(run, trials=trials)).caveats}
            assert (CaveatKind.CLOCKS_APART in kinds) is apart


class TestTraining:
    def test_time_is_projected_to_the_published_epochs_without_cold_start(self):
        result = summary(cpu_run(), "cpu", BASELINE)
        assert result.training_projected
        assert result.training_s.median == pytest.approx(100 * 50_000 / result.throughput.median)
        assert summary(cpu_run(), "cpu", MODEL_ONLY).training_s is None
        assert summary(four_gpu_run(), "gpu0", BASELINE).training_s is None, "an endless input has no epochs"

    def test_a_complete_training_is_not_projected(self):
        run = cpu_run(trials=3)
        first = run.trials[0]
        measured = Metric(variant=BASELINE, name="training_s", value=481.0)
        run = replace(run, trials=(replace(first, metrics=(*first.metrics, measured)), *run.trials[1:]))
        result = summary(run, "cpu", BASELINE)
        assert result.training_s.median == 481.0
        assert not result.training_projected
        fewer = replace(run.manifest, options=replace(run.manifest.options, params={"EPOCHS": "5"}))
        result = summary(replace(run, manifest=fewer), "cpu", BASELINE)
        assert result.training_s is None, "not the published epochs"

    def test_cold_start_has_shared_phases_then_those_of_the_variant(self):
        cold_start = dict(summary(gpu_run(), "gpu0", TUNED).cold_start)
        assert list(cold_start) == ["import", "data", "build", "first-step", "warm-up"]
        assert cold_start["first-step"] == pytest.approx(1.8)

    @pytest.mark.parametrize(
        ("run", "needed", "accuracy", "learned"),
        [
            (hostile_run(), 0.2, None, True),  # procedural data: the declared accuracy is required
            (hostile_run(), 0.3, None, False),
            (cpu_run(), 0.9, None, True),  # real data: 24 % with 100 classes is more than chance
            (cpu_run(), 0.9, 0.0145, False),
        ],
    )
    def test_accuracy_shows_whether_it_learned(self, run, needed, accuracy, learned):
        run = replace(run, workloads=(replace(run.workloads[0], min_accuracy=needed),))
        if accuracy is not None:
            metrics = builders.learned(accuracy)
            run = replace(run, trials=tuple(replace(trial, metrics=metrics) for trial in run.trials))
        assert summary(run, "cpu", BASELINE).accuracy_ok is learned
        assert summary(run, "cpu", TUNED).accuracy_ok is None


class TestTelemetry:
    @pytest.mark.parametrize(
        ("windows", "series", "means"),
        [
            (  # the reading at 1 s also covers time before the window
                (window(0.5, 3.5), window(3.6, 6.5, TUNED)),
                nvml([0, 1, 2, 3, 4, 5, 6], gpu_util_pct=[99, 99, 10, 20, 99, math.nan, 50]),
                {BASELINE: {"gpu_util_pct": 15.0}, TUNED: {"gpu_util_pct": 50.0}},
            ),
            # A variant with few readings keeps all of them; one without readings has no mean.
            ((window(0.5, 1.5),), nvml([0, 1, 2], gpu_util_pct=[1, 2, 3]), {BASELINE: {"gpu_util_pct": 2.0}}),
            ((window(4, 5),), nvml([0, 10], gpu_util_pct=[1, 2]), {BASELINE: {}}),
            (  # counters become rates: 50 J at 0.5 s and 450 J at 2.5 s; bit masks have no mean
                (window(0.5, 2.5),),
                nvml([0, 1, 2, 3], energy_j=[0, 100, 300, 600], throttle_reasons=[0, 4, 4, 0]),
                {BASELINE: {"energy_j_per_s": 200.0}},
            ),
            (  # a counter with a read interval longer than the windows is ignored
                (window(0.5, 1.5), window(1.5, 2.5, TUNED), window(2.5, 3.5)),
                nvml([0, 2, 4, 6], energy_j=[0, 800, 1000, 1800]),
                {BASELINE: {}, TUNED: {}},
            ),
            (  # so is one that was not read for longer than the window
                (window(1, 2), window(7, 8, TUNED), window(9, 11, TUNED)),
                nvml([0, 1, 2, 3, 8.5, 10, 11], energy_j=[0, 100, 200, 300, 8000, 8300, 8500]),
                {BASELINE: {"energy_j_per_s": 100.0}, TUNED: {"energy_j_per_s": 200.0}},
            ),
        ],
    )
    def test_means_cover_only_the_windows_of_a_variant(self, windows, series, means):
        result = steady_means(trial_with(windows, series))
        assert result.keys() == means.keys()
        for variant, values in means.items():
            wanted = {Reading("nvml", "gpu0", key): each for key, each in values.items()}
            assert result[variant] == pytest.approx(wanted)

    def test_counter_increases_are_unknown_outside_readings_and_across_resets(self):
        t_ns, ends = np.array([1, 2, 3, 4]), [(0.5, 1.5), (1, 2), (1.5, 3), (3, 4), (3.5, 4.5)]
        starts_s, ends_s = np.array(ends).T
        result = counter_increases(
            t_ns * SECOND_NS, np.array([10.0, 20, 0, 10]), starts_s * SECOND_NS, ends_s * SECOND_NS
        )
        assert result.tolist() == pytest.approx([math.nan, 10.0, math.nan, 10.0, math.nan], nan_ok=True)
        origin = 10**18  # 31 years of uptime: float64 rounds these to 128 ns
        t_ns = origin + np.arange(4, dtype=np.int64) * 1000
        start, end = (np.array([origin + nanoseconds], dtype=np.int64) for nanoseconds in (500, 1500))
        (increase,) = counter_increases(t_ns, np.array([0.0, 1, 2, 3]), start, end)
        assert increase == pytest.approx(1.0, abs=1e-9)


class TestEnergy:
    def test_it_is_mean_power_over_throughput_and_prefers_instant_power(self):
        run, sources = gpu_run(), {}
        for source, *columns in (("", ""), ("nvml", "power_instant_w"), ("nvml", "power_usage_w")):
            run = without_columns(run, source, *columns)
            result = summary(run, "gpu0", BASELINE)
            sources[result.energy_source] = result.energy_j_per_sample
        assert list(sources) == ["instant GPU power", "GPU power", ""]
        assert sources.pop("") is None
        joules = [each.median for each in sources.values() if each]
        assert joules == pytest.approx([125 * 0.0056 / 32] * 2, rel=0.1)

    def test_several_gpus_are_summed_and_all_must_be_measured(self):
        run, devices = four_gpu_run(), ("gpu0", "gpu0+gpu1+gpu2+gpu3")
        single, four = (summary(run, each, BASELINE).energy_j_per_sample for each in devices)
        assert four.median == pytest.approx(single.median / 0.9, rel=0.05)
        trials = (
            replace(trial, telemetry=tuple(each for each in trial.telemetry if each.device != "gpu1"))
            for trial in run.trials
        )
        assert summary(replace(run, trials=tuple(trials)), devices[1], BASELINE).energy_j_per_sample is None

    def test_cpu_energy_sums_packages_and_dram_without_double_counting(self):
        watts = {"package-0": 100, "package-0_core": 60, "package-0_dram": 20, "package-1": 30, "psys": 400}
        run = cpu_run(trials=1)
        zones = (
            replace(nvml([0, 5, 10], energy_j=[0, each * 5, each * 10]), source="rapl", device=name)
            for name, each in watts.items()
        )
        trial = replace(trial_with((window(1, 9, samples=800),), *zones), device="cpu")
        result = summary(replace(run, trials=(trial,)), "cpu", BASELINE)
        assert result.energy_source == CPU_COUNTER
        assert result.energy_j_per_sample.median == pytest.approx(150 / 100)


def only(run: Run) -> Sweep:
    (result,) = sweeps(run)
    return result


def point_at(sweep: Sweep, **values: int) -> SweepPoint:
    return next(each for each in sweep.points if dict(each.point) == values)


def test_the_best_point_its_ties_and_failures() -> None:
    sweep = only(sweep_run())
    assert dict(sweep.best.point)["batch_size"] == 128
    assert [each.tied for each in sweep.points] == [False, False, True, True, None, None]
    each = point_at(only(sweep_run(noise=0.0)), batch_size=128, steps_per_execution=10)
    assert each.throughput.median == pytest.approx(128 / (0.001 + 0.000002 + 128 * 2e-5), rel=0.01)
    assert each.throughput.n == 3, "of its own trials only"
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
    """Cases would average over points with different parameters."""
    result = analyse(sweep_run())
    assert result.cases == result.published == ()
    assert analyse(builders.gpu_run()).sweeps == ()
    # Running out of memory is a result of a sweep and no failure.
    assert any(trial.status is Status.OUT_OF_MEMORY for trial in result.run.trials)
    assert CaveatKind.FAILED_TRIALS not in {each.kind for each in result.caveats}
    assert not [text for text in banners(result.run) if "failed" in text]
    gpu = sweep_run(device="gpu0")
    both = replace(gpu, planned=result.run.planned + gpu.planned, trials=result.run.trials + gpu.trials)
    assert [(each.device, len(each.points)) for each in sweeps(both)] == [("cpu", 6), ("gpu0", 6)]
