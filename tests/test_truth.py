import re
from functools import cache
from statistics import median

import numpy as np
import pytest

from benchmarks.power import measure, stopped
from benchmarks.truth import scoring
from benchmarks.truth.__main__ import judge_all
from benchmarks.truth.judging import Judged
from benchmarks.truth.running import Settings, run_case, script_of
from benchmarks.truth.suites import SUITES, archive, unpack
from harness.defaults import PROFILES
from harness.model.analysis import Cause
from harness.model.comparison import Extract
from harness.run.scripts import check_params, read_workloads
from harness.run.stopping import Stopping
from tests.comparisons import again, whole
from tests.conftest import ROOT
from tests.test_runner import planned, trial

CASES = tuple(case for suite in SUITES.values() for case in suite)


class TestCases:
    def test_script_constants_and_stage_exist(self):
        read = cache(lambda path: read_workloads(path, "case")[0])
        for case in (each for each in CASES if each.script):
            workload = read(script_of(case))
            values = check_params({name: str(value) for name, value in case.params.items()}, [workload])
            assert {name: value for name, (value,) in values.items()} == case.params, case.name
            # The copy to a GPU is no stage of the script.
            stages = ("", "copy", *re.findall(r"def (\w+)\(", workload.scripts[workload.file]))
            assert case.stage in stages, case.name
        for case in (each for each in CASES if each.control):
            (control,) = (each for each in CASES if each.name == case.control)
            assert control.script == case.script, case.name
            assert Cause.COMPUTE in (control.planted, *control.also), case.name


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


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.1])
def test_simulated_runs_stop_after_the_same_trial_as_real_ones(noise: float) -> None:
    profile = PROFILES["quick"]
    for seed in range(6):
        values = np.exp(np.random.default_rng(seed).normal(0, noise, profile.max_trials))
        stopping = Stopping(profile)
        count = 0
        for index, value in enumerate(values):
            if stopping.next([planned(index)]) is None:
                break
            stopping.add(planned(index), trial(value * 1e6))
            count += 1
        assert len(stopped([values.tolist()], profile)[0]) == count


def test_a_slowdown_far_above_the_noise_is_always_detected() -> None:
    def draw(random: np.random.Generator) -> Extract:
        return again(whole(), int(random.integers(1 << 30)))

    rates = measure(draw, 20, 0.2)
    assert rates.detected == 20
    assert rates.no_difference >= 17
    assert rates.trials == 5
