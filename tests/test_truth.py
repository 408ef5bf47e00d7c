import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from benchmarks.truth import peers, scoring
from benchmarks.truth.__main__ import judge_all
from benchmarks.truth.case import Case, Environment
from benchmarks.truth.judging import Judged, planted_loss, utilisation
from benchmarks.truth.planting import PlantingEngine
from benchmarks.truth.recordings import archive, pack_runs, unpack
from benchmarks.truth.running import SCRIPTS, Settings, run_case, script_of
from benchmarks.truth.standin_cases import plant
from benchmarks.truth.suites import SUITES
from harness.analysis import analyse
from harness.engines import DATA_DIR, ContainerSpec, Mount
from harness.errors import EngineError
from harness.model.analysis import Cause
from harness.run.catalogue import select
from harness.run.scripts import check_params
from harness.run.store import read_run
from tests import builders
from tests.conftest import ROOT
from tests.fakes import FakeEngine, Script
from tests.recordings import recording

REFUSING = Script(start_error=EngineError("No.", hint="Try."))
CASES = tuple(case for suite in SUITES.values() for case in suite)


def judged(
    name: str = "a", truth: Cause = Cause.INPUT, answer: Cause = Cause.INPUT, **changed: object
) -> Judged:
    case = Case(name=name, planted=truth, text="t", script="reading", params={"SAMPLE_US": 1000})
    result = Judged(
        case=case, answer=answer, stages=(), share=None, planted=None, unexplained=None,
        prediction=None, utilisation=None,
    )  # fmt: skip
    return replace(result, **changed)


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
    def test_the_planted_cause_and_its_alternatives_are_right(self):
        assert judged(truth=Cause.CALLBACKS, answer=Cause.CALLBACKS).right
        other = judged(truth=Cause.CALLBACKS, answer=Cause.RUN_EAGERLY)
        assert not other.right
        assert replace(other, case=replace(other.case, also=(Cause.RUN_EAGERLY,))).right

    def test_a_planted_stage_is_named_by_its_function(self):
        found = judged(stages=("read", "decode, jpegs.py:30"))
        assert found.stage_named
        assert replace(found, case=replace(found.case, stage="decode")).stage_named
        other = replace(found, case=replace(found.case, stage="resize"))
        assert not other.stage_named
        assert replace(other, stages=()).stage_named
        assert "(**read, decode, jpegs.py:30**)" in "".join(scoring.cases_table([other]))

    def test_the_error_requires_the_right_answer_and_a_known_loss(self):
        assert judged(share=0.45, planted=0.5).error == pytest.approx(0.1)
        assert judged(answer=Cause.LAUNCH, share=0.45, planted=0.5).error is None
        assert judged(share=0.45).error is None
        assert judged(share=0.45, planted=0.0).error is None

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


class TestScoring:
    def test_peers_answer_only_whether_the_device_waits(self):
        cases = [
            judged("a", utilisation=0.5),
            judged("b", Cause.COMPUTE, Cause.LAUNCH, utilisation=0.95),
            judged("c", Cause.COMPUTE, Cause.COMPUTE, utilisation=0.8),
        ]
        low = {"input_pct": 4.0, "conclusion": "Your program is NOT input-bound because"}
        table = list(peers.peers_table(cases, {"a": low, "b": low, "c": {"input_pct": None}}))
        assert table[2:] == [
            "| `a` | yes | yes (input) | **no** (4.0 %) | yes (50.0 %) |",
            "| `b` | no | no (launch) | no (4.0 %) | no (95.0 %) |",
            "| `c` | no | no (compute) | **no answer** | **yes** (80.0 %) |",
            "| **right** |  | **3 of 3** | **1 of 3** | **2 of 3** |",
        ]


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

    def test_an_unavailable_disk_limit_is_an_error_and_removes_the_trial(self, tmp_path):
        inner = FakeEngine(Script())
        engine = PlantingEngine(inner, Environment(disk_read_bytes_per_s=1_000_000))
        with pytest.raises(EngineError, match="Disk"):
            engine.start(container_spec(tmp_path))
        assert inner.left_behind == []

    def test_planted_readings_replace_recorded_ones(self, tmp_path):
        readings = {"sm_clock_mhz": 990.0, "throttle_sw_thermal": 0.25, "power_capped_s": 0.25}
        plant(recording("h200-compute-bound", tmp_path), tmp_path / "planted", readings)
        run = read_run(tmp_path / "planted")
        (series,) = (each for each in run.trials[0].telemetry if each.source == "nvml")
        assert set(series.columns["sm_clock_mhz"]) == {990.0}
        assert series.columns["throttle_sw_thermal"].mean() == pytest.approx(0.25, abs=0.01)
        grown = series.columns["power_capped_s"][-1] - series.columns["power_capped_s"][0]
        assert grown == pytest.approx(0.25 * (series.t_ns[-1] - series.t_ns[0]) / 1e9, rel=1e-3)


class TestPacking:
    def test_archives_are_reproducible_and_without_derived_files(self, tmp_path):
        folder = recording("h200-input-bound", tmp_path / "runs")
        case = Case(name=folder.name, planted=Cause.INPUT, text="", script="reading")
        stand_in = replace(case, recording="x")
        for number in range(2):
            pack_runs([case, stand_in], tmp_path / "runs", tmp_path / f"{number}.tar.xz")
        assert (tmp_path / "0.tar.xz").read_bytes() == (tmp_path / "1.tar.xz").read_bytes()
        (tmp_path / "out").mkdir()
        with tarfile.open(tmp_path / "0.tar.xz") as tar:
            tar.extractall(tmp_path / "out", filter="data")
        again = tmp_path / "out" / folder.name
        assert not (again / "results.json").exists()
        assert analyse(read_run(again)).findings == analyse(read_run(folder)).findings


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
