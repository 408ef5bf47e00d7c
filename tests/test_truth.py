import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.power import measure, trials_needed
from benchmarks.sampling import Turn, speed, table
from benchmarks.truth import scoring
from benchmarks.truth.__main__ import judge_all
from benchmarks.truth.case import Case, Environment
from benchmarks.truth.judging import Judged, planted_loss, utilisation
from benchmarks.truth.planting import PlantingEngine
from benchmarks.truth.recordings import archive, unpack
from benchmarks.truth.running import SCRIPTS, Settings, run_case, script_of
from benchmarks.truth.standin_cases import plant
from benchmarks.truth.suites import SUITES
from harness.analysis import analyse
from harness.cli.list import FOOTPRINTS
from harness.defaults import PROFILES
from harness.engines import DATA_DIR, ContainerSpec, Mount
from harness.errors import EngineError
from harness.model.analysis import Cause
from harness.model.comparison import Extract
from harness.run.catalogue import built_in, select
from harness.run.runner import Stopping
from harness.run.scripts import check_params
from harness.run.store import read_run
from tests import builders
from tests.comparisons import again, whole
from tests.conftest import ROOT
from tests.fakes import FakeEngine, Script
from tests.recordings import recording
from tests.test_runner import planned, trial

REFUSING = Script(start_error=EngineError("No.", hint="Try."))
CASES = tuple(case for suite in SUITES.values() for case in suite)


def container_spec(out: Path) -> ContainerSpec:
    return builders.container_spec(out=out, mounts=(Mount(container=f"{DATA_DIR}/own", host=out),))


class TestCases:
    @pytest.mark.parametrize("case", [case for case in CASES if case.script], ids=lambda case: case.name)
    def test_script_constants_and_stage_exist(self, case):
        (entry,) = select([str(script_of(case))])
        texts = {name: str(value) for name, value in case.params.items()}
        values = check_params(texts, [entry.workload])
        assert {name: value for name, (value,) in values.items()} == case.params
        # The copy to a GPU is no stage of the script.
        assert case.stage in ("", "copy") or f"def {case.stage}(" in script_of(case).read_text("utf-8")

    def test_all_scripts_are_used(self):
        files = {path.relative_to(SCRIPTS).with_suffix("").as_posix(): path for path in SCRIPTS.rglob("*.py")}
        texts = {name: path.read_text("utf-8") for name, path in files.items()}
        used = {case.script for case in CASES if case.script}
        imported = {name for name in texts if any(f"from {name} import" in texts[each] for each in used)}
        assert used | imported == texts.keys()

    @pytest.mark.parametrize("case", [case for case in CASES if case.control], ids=lambda case: case.name)
    def test_a_control_is_the_same_workload_without_bottleneck(self, case):
        (control,) = (each for each in CASES if each.name == case.control)
        assert control.script == case.script
        assert Cause.COMPUTE in (control.planted, *control.also)


class TestJudging:
    def test_loss_and_utilisation_of_a_recorded_run(self, tmp_path):
        analysis = analyse(read_run(recording("h200-input-bound", tmp_path)))
        case = Case(name="c", planted=Cause.INPUT, script="", text="", device="gpu", step_s=0.001)
        (written,) = (each for each in analysis.summaries if each.variant == "baseline")
        assert planted_loss(case, analysis, None) == pytest.approx(1 - 0.001 / written.step_time.median)
        assert planted_loss(replace(case, lost=0.25), analysis, None) == 0.25
        assert planted_loss(replace(case, step_s=None, control="x"), analysis, analysis) == 0
        assert planted_loss(replace(case, planted=Cause.COMPUTE), analysis, None) is None
        assert utilisation(case, analysis) == pytest.approx(2248 / 29033, rel=0.01)
        simulated = replace(case, params={"SAMPLE_US": 5, "STEP_US": 10})
        (batch,) = {each.batch_size for each in analysis.summaries if each.variant == "baseline"}
        step_s = (10 + 5 * batch) / 1e6
        assert utilisation(simulated, analysis) == pytest.approx(step_s / written.step_time.median)


class TestPlanting:
    def test_neighbours_start_before_the_trial_and_stop_on_close(self, tmp_path):
        inner = FakeEngine(Script(), Script())
        engine = PlantingEngine(inner, Environment(neighbours=3))
        container = engine.start(container_spec(tmp_path))
        assert [each.spec.command[0] for each in inner.containers] == ["python3", "true"]
        assert "range(2)" in inner.containers[0].spec.command[-1]
        own = inner.containers[0].spec.out
        assert own.is_dir()
        container.kill()
        container.remove()
        engine.close()
        assert inner.left_behind == []
        assert not own.exists()

    @pytest.mark.parametrize("scripts", [(Script(), REFUSING), (REFUSING,)])
    def test_neighbours_are_removed_if_a_start_fails(self, tmp_path, monkeypatch, scripts):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        inner = FakeEngine(*scripts)
        engine = PlantingEngine(inner, Environment(neighbours=1))
        with pytest.raises(EngineError):
            engine.start(container_spec(tmp_path))
        engine.close()
        assert inner.left_behind == []
        assert list(tmp_path.iterdir()) == []

    def test_planted_readings_replace_recorded_ones(self, tmp_path):
        readings = {"sm_clock_mhz": 990.0, "throttle_sw_thermal": 0.25, "power_capped_s": 0.25}
        plant(recording("h200-compute-bound", tmp_path), tmp_path / "planted", readings)
        run = read_run(tmp_path / "planted")
        (series,) = (each for each in run.trials[0].telemetry if each.source == "nvml")
        assert set(series.columns["sm_clock_mhz"]) == {990.0}
        assert series.columns["throttle_sw_thermal"].mean() == pytest.approx(0.25, abs=0.01)
        grown = series.columns["power_capped_s"][-1] - series.columns["power_capped_s"][0]
        assert grown == pytest.approx(0.25 * (series.t_ns[-1] - series.t_ns[0]) / 1e9, rel=1e-3)


MAX_WRONG = 0.05
KEPT = tuple(suite for suite in SUITES if archive(suite).exists())


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Judged]]:
    judged_suites = {}
    for suite in KEPT:
        settings = Settings(folder=unpack(suite, tmp_path_factory.mktemp(suite)))
        for case in SUITES[suite]:
            if case.recording:
                run_case(case, settings)
        judged_suites[suite] = judge_all(SUITES[suite], settings)
    return judged_suites


@pytest.mark.slow
@pytest.mark.parametrize("suite", KEPT)
class TestRecorded:
    def test_answers_and_shares_match_what_was_planted(self, replayed, suite):
        own = replayed[suite]
        wrong = [f"{each.case.name}: {each.answer}" for each in own if not each.right]
        assert len(wrong) <= MAX_WRONG * len(own), wrong
        accused = [each for each in own if each.input_bound and not each.right]
        assert [each.case.name for each in accused if not (each.case.input_bound or each.case.mixed)] == []
        errors = [each.error for each in own if each.error is not None]
        assert median(errors) < 0.1
        assert sum(error > scoring.SHARE_TOLERANCE for error in errors) <= MAX_WRONG * len(errors)

    def test_the_documentation_quotes_the_current_tables(self, replayed, suite):
        text = (ROOT / "docs/truth.md").read_text(encoding="utf-8")
        for line in (*scoring.summary(replayed[suite]), *scoring.by_cause(replayed[suite])):
            assert line in text


SECOND = 1_000_000_000


def turn(sampler: str, number: int, **changed: object) -> Turn:
    defaults = {"sampler": sampler, "round": number, "start_ns": 0, "end_ns": 2 * SECOND, "cpu_s": 0.02,
             "memory_bytes": 3 << 20, "speed": 1000.0}  # fmt: skip
    return Turn(**{**defaults, **changed})


@pytest.mark.slow
def test_only_windows_entirely_within_a_turn_count() -> None:
    windows = [(0, 2, 1000), (2, 4, 10), (4, 6, 30), (6, 9, 1000)]
    assert speed(windows, 2, 8) == pytest.approx(40e9 / 4)
    assert math.isnan(speed([(0, 2, 10)], 1, 9))


@pytest.mark.slow
def test_slowdown_is_relative_to_the_same_round_and_needs_windows() -> None:
    turns = [
        turn("none", 0), turn("x", 0, speed=800.0), turn("none", 1, speed=500.0), turn("x", 1, speed=400.0),
        turn("y", 0, speed=float("nan")),
    ]  # fmt: skip
    lines = list(table(turns, {"z": "no driver."}))
    assert lines[2:4] == ["| x | +25.00 (+25.00 to +25.00) | 1.00 | 3 |", "| y | - | 1.00 | 3 |"]
    assert lines[-1] == "Left out: z, no driver."


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.1])
def test_simulated_runs_stop_after_the_same_trial_as_real_ones(noise: float) -> None:
    profile = PROFILES["quick"]
    for seed in range(6):
        values = np.exp(np.random.default_rng(seed).normal(0, noise, profile.max_trials))
        stopping = Stopping(profile)
        count = 0
        for index, value in enumerate(values):
            if not stopping.should_run(planned(index)):
                break
            stopping.add(planned(index), trial(value * 1e6))
            count += 1
        assert trials_needed(values.tolist(), profile) == count


def test_a_slowdown_far_above_the_noise_is_always_detected() -> None:
    def draw(random: np.random.Generator) -> Extract:
        return again(whole(), int(random.integers(1 << 30)))

    rates = measure(draw, 20, 0.2)
    assert rates.detected == 20
    assert rates.no_difference >= 17
    assert rates.trials == 5


def test_the_table_has_only_existing_workloads() -> None:
    assert set(json.loads(FOOTPRINTS.read_text())) <= {entry.workload.name for entry in built_in()}
