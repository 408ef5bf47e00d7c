import datetime
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.model.run import Options
from harness.run.prepare import git_commit, new_run_id
from harness.run.resolve import resolve
from tests.commands import output_of
from tests.folders import write_files
from workloads.protocol import BASELINE, TUNED, VARIANTS

CPU = Options(device="cpu")


SCRIPT = "rate = 0.1\nBATCH_SIZE = 8\n"


@pytest.mark.parametrize("path", ["nothing-here", "/", "/proc/cpuinfo", "/tfbench/x", "/dev/null"])
def test_impossible_mounts(path: str) -> None:
    with pytest.raises(UsageError, match=f"--mount {path} ") as caught:
        resolve(replace(CPU, mounts=(Path(path),)))
    assert "Give " in caught.value.hint


def test_options_override_the_profile() -> None:
    resolved = resolve(
        replace(CPU, profile="smoke", trials=4, stall_s=7.0, workloads=("cifar10-mlp",), machine=False)
    )
    assert (resolved.profile.name, resolved.profile.trials, resolved.profile.max_trials) == ("smoke", 4, 4)
    assert resolved.profile.stall_s == 7.0
    assert [trial.index for trial in resolved.planned] == [0, 1, 2, 3]
    assert set(VARIANTS) < set(resolved.planned[0].variants)
    assert {each.variants for each in resolved.planned[1:]} == {(BASELINE, TUNED)}
    assert resolved.targets == ("cpu",)


def test_params_apply_only_to_workloads_that_have_them(tmp_path: Path) -> None:
    script = str(write_files(tmp_path, {"mine.py": SCRIPT}) / "mine.py")
    params = {"rate": "0.5", "batch_size": "16"}
    options = replace(CPU, workloads=(script, "cifar10-mlp"), profile="smoke", params=params, machine=False)
    planned = {trial.workload: trial.params for trial in resolve(options).planned}
    assert planned == {"mine": {"rate": 0.5, "BATCH_SIZE": 16}, "cifar10-mlp": {"BATCH_SIZE": 16}}


def test_params_of_a_script_without_constants(tmp_path: Path) -> None:
    script = str(write_files(tmp_path, {"mine.py": "x = [print()]"}) / "mine.py")
    with pytest.raises(UsageError, match=r"no constants in mine\.py") as caught:
        resolve(replace(CPU, workloads=(script,), params={"rate": "0.5"}))
    assert "BATCH_SIZE = 32" in caught.value.hint


def test_run_ids_are_unique_and_sort_by_time() -> None:
    then = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    ids = {new_run_id(then) for _ in range(20)}
    assert len(ids) > 1
    assert all(re.fullmatch(r"20260102-030405-[0-9a-f]{4}", item) for item in ids)
    assert new_run_id(then + datetime.timedelta(seconds=1)) > max(ids)


def test_git_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) == ""

    def git(*words: str) -> str:
        return output_of("git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words).strip()

    git("init", "--quiet")
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    git("tag", "v1")
    head = git("rev-parse", "HEAD")
    assert git_commit(tmp_path) == head
    (tmp_path / "file").write_text("two", encoding="utf-8")
    assert git_commit(tmp_path) == f"{head}-dirty"


def test_sweep_plan_interleaves_the_grid_without_duplicates(tmp_path: Path) -> None:
    text = "BATCH_SIZE = 8\nEPOCHS = 1\nXLA = False\nSIDES = (1, 2)\n"
    script = str(write_files(tmp_path, {"mine.py": text}) / "mine.py")
    params = {"batch_size": "32,32, 64", "xla": "false,true", "epochs": "2", "sides": "(3, 4)"}
    planned = resolve(replace(CPU, workloads=(script,), trials=2, params=params)).planned
    assert [trial.id.removeprefix("mine.cpu.") for trial in planned] == [
        "p01.0", "p02.0", "p03.0", "p04.0", "p01.1", "p02.1", "p03.1", "p04.1",
    ]  # fmt: skip
    assert {trial.variants for trial in planned} == {(BASELINE,)}
    assert planned[1].point == (("BATCH_SIZE", 32), ("XLA", True))
    assert planned[1].params == {"BATCH_SIZE": 32, "XLA": True, "EPOCHS": 2, "SIDES": (3, 4)}
