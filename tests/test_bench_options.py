import datetime
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.model.options import Options
from harness.run.json_values import from_plain, to_plain
from harness.run.prepare import git_commit, new_run_id
from harness.run.resolve import resolve
from tests.commands import output_of
from workloads.protocol import BASELINE, TUNED, VARIANTS

CPU = Options(device="cpu")


def workload_file(folder: Path, name: str = "mine", suite: str = "default") -> Path:
    path = folder / f"{name.replace('-', '_')}.py"
    path.write_text(
        f"workload = Workload(name={name!r}, title='', batch_size=8, epochs=1, suite={suite!r},\n"
        "    params={'rate': 0.1}, data=Data(name='x', shape=(4,), classes=2, train=9, test=3))\n",
        encoding="utf-8",
    )
    return path


def names(options: Options) -> list[str]:
    return [entry.workload.name for entry in resolve(options).entries]


def test_workload_file_runs_alone_or_with_named_workloads(tmp_path: Path) -> None:
    file = workload_file(tmp_path, suite="extra")
    assert names(replace(CPU, files=(file,))) == ["mine"]
    assert names(replace(CPU, files=(file,), workloads=("cifar10-mlp",))) == ["cifar10-mlp", "mine"]
    assert names(replace(CPU, files=(file,), workloads=("mine",))) == ["mine"]


def test_duplicate_workload_name_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for files in (
        (workload_file(tmp_path, "cifar10-mlp"),),
        (workload_file(tmp_path), workload_file(tmp_path / "other")),
    ):
        with pytest.raises(UsageError, match="already exists"):
            resolve(replace(CPU, files=files))


def test_options_override_the_profile() -> None:
    resolved = resolve(replace(CPU, profile="smoke", trials=4, stall_s=7.0, workloads=("cifar10-mlp",)))
    assert (resolved.profile.name, resolved.profile.trials, resolved.profile.max_trials) == ("smoke", 4, 4)
    assert resolved.profile.stall_s == 7.0
    assert [trial.index for trial in resolved.planned] == [0, 1, 2, 3]
    assert set(VARIANTS) < set(resolved.planned[0].variants)
    assert {each.variants for each in resolved.planned[1:]} == {(BASELINE, TUNED)}
    assert resolved.targets == ("cpu",)


def test_params_apply_only_to_workloads_that_have_them(tmp_path: Path) -> None:
    options = replace(
        CPU, files=(workload_file(tmp_path),), workloads=("cifar10-mlp",), profile="smoke",
        params={"rate": "0.5", "batch_size": "16"},
    )  # fmt: skip
    params = {trial.workload: trial.params for trial in resolve(options).planned}
    assert params == {"mine": {"rate": 0.5, "batch_size": 16}, "cifar10-mlp": {"batch_size": 16}}


paths, numbers = st.text(max_size=12).map(Path), st.floats(0, 1e9)
texts = st.dictionaries(st.text(), st.text(), max_size=2)
special = {
    "out": paths, "files": st.lists(paths, max_size=2).map(tuple), "weights": st.none() | paths, "rate_hz": numbers,
    "cpu_quota": st.none() | numbers, "memory_gib": st.none() | numbers, "stall_s": st.none() | numbers,
    "images": texts, "params": texts,
}  # fmt: skip
any_options = st.builds(Options, **{field.name: special.get(field.name, ...) for field in fields(Options)})


@given(options=any_options)
def test_options_round_trip_through_json(options: Options) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(options))), Options) == options


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


SWEEP = Options(device="cpu", workloads=("cifar100-mlp",), trials=2)


def test_sweep_plan_interleaves_the_grid_without_duplicates() -> None:
    params = {"batch_size": "32,32, 64", "jit_compile": "false,true", "epochs": "2"}
    planned = resolve(replace(SWEEP, params=params)).planned
    assert [trial.id.removeprefix("cifar100-mlp.cpu.") for trial in planned] == [
        "p01.0", "p02.0", "p03.0", "p04.0", "p01.1", "p02.1", "p03.1", "p04.1",
    ]  # fmt: skip
    assert {trial.variants for trial in planned} == {(BASELINE,)}
    assert planned[1].point == (("batch_size", 32), ("jit_compile", True))
    assert planned[1].params == {"batch_size": 32, "jit_compile": True, "epochs": 2}
