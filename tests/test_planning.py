import datetime
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.defaults import PROFILES
from harness.errors import GpuError, UsageError
from harness.model.workload import BESIDE, Data, FileState, Rung, Workload
from harness.options import Options
from harness.run import catalogue
from harness.run.catalogue import Entry, built_in, folder_sha256, select, sources
from harness.run.placing import placed
from harness.run.plan import (
    not_applicable,
    one_device_only,
    plan_trials,
    resolve_devices,
    resolve_variants,
    with_cpu_to_compare,
)
from harness.run.prepare import changed_files, git_commit, new_run_id
from harness.run.resolve import resolve
from harness.run.trial_container import spec_for
from harness.system.gpus import discover
from tests.builders import small_workload
from tests.commands import output_of
from tests.conftest import ROOT
from tests.errors import user_error
from tests.folders import write_files
from tests.nvml_standin import UUID, standin
from workloads.driver.edits import applied
from workloads.protocol import Aim, Edit, Fix, Requests, Script, Spec
from workloads.variants import (
    BASELINE,
    BREAKDOWN,
    FIXES,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    TUNED,
    WITHOUT_COPY,
    measures_speed,
)

__all__ = ["standin"]

SMOKE = PROFILES["smoke"]
QUICK = PROFILES["quick"]


def workload(name: str = "mlp", text: str = "", **changes: object) -> Workload:
    ladder = {"fp16": Rung(script="tuned.py")} if name == "resnet50" else {}
    return small_workload(name, text, **{"ladder": ladder, **changes})


@pytest.mark.parametrize(
    ("wanted", "gpus", "devices"),
    [
        ("auto", 0, ("cpu",)),
        ("auto", 2, ("cpu", "gpu0", "gpu1")),
        ("gpu", 2, ("gpu0", "gpu1")),
        ("gpu1+gpu0", 2, ("gpu1+gpu0",)),
        ("cpu, gpu0,cpu", 1, ("cpu", "gpu0")),
        ("scaling", 1, ("gpu0",)),
        ("scaling", 3, ("gpu0", "gpu0+gpu1")),
        ("cpu,scaling", 4, ("cpu", "gpu0", "gpu0+gpu1", "gpu0+gpu1+gpu2+gpu3")),
    ],
)
def test_devices(wanted: str, gpus: int, devices: tuple[str, ...]) -> None:
    assert resolve_devices(wanted, gpus) == devices


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [("gpu1", 1), ("tpu", 1), ("gpu0+gpu0", 2), ("gpu0+cpu", 1), ("gpu0+", 1), ("tpu", 0)],
)
def test_unavailable_devices(wanted: str, gpus: int) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_devices(wanted, gpus)
    assert repr(wanted) in caught.value.message
    assert "cpu" in caught.value.hint
    assert wanted != "gpu1" or "--gpus all" in caught.value.hint
    for one in ("gpu", "scaling", "gpu0", "gpu0+gpu1"):
        with pytest.raises(GpuError, match=f"{one!r}.* no driver[.]".replace("+", "[+]")):
            resolve_devices(one, 0, "no driver.")


def test_gpus_without_a_gpu() -> None:
    if discover()[0]:
        pytest.skip("This machine has a GPU.")
    with pytest.raises(GpuError, match=r"--gpus all was requested, but no GPU is usable"):
        resolve(Options(gpus="all"))


def test_variants() -> None:
    suite = [workload(), workload("resnet50"), workload("plain", tuned="")]
    whole = (BASELINE, TUNED, *BREAKDOWN)
    assert resolve_variants("", True, suite) == dict.fromkeys(("mlp", "resnet50", "plain"), whole)
    assert STAGES in whole
    assert resolve_variants(" , ", True, suite)["mlp"] == whole
    assert resolve_variants("batch:8,threads:2,without:copy,stages", True, suite)["mlp"] == (
        "batch:8", "threads:2", "without:copy", "stages",
    )  # fmt: skip
    without = resolve_variants("", False, suite)
    assert (without["mlp"], without["plain"]) == ((BASELINE, TUNED), (BASELINE,))
    named = resolve_variants("tuned, opt:fp16,tuned", True, suite)
    assert named == {"mlp": ("tuned",), "resnet50": ("tuned", "opt:fp16"), "plain": (BASELINE, FIXES, TUNED)}
    for wanted in ("batch:0", "calls:x", "fast", "opt:fp8", "stage:read", "tuned,x"):
        with pytest.raises(UsageError) as caught:
            resolve_variants(wanted, True, [workload("resnet50")])
        assert "opt:fp16" in caught.value.hint and "without:launch" in caught.value.hint


def test_trees_wait_for_no_input() -> None:
    trees = workload("trees", image="trees")
    assert resolve_variants("", True, [trees])["trees"] == (BASELINE, TUNED, INPUT_ONLY)
    assert resolve_variants("model-only", True, [trees])["trees"] == ("model-only",)
    for refused in ("batch:4,custom-loop", "custom-loop", "fixes", "threads:2", "stages"):
        with pytest.raises(UsageError, match=refused.partition(",")[0]):
            resolve_variants(refused, True, [trees])
    assert "tuned" in resolve_variants("tuned", True, [trees])["trees"]
    with pytest.raises(UsageError, match="'tuned'"):
        resolve_variants("tuned", True, [replace(trees, tuned="")])


def test_beside_gpus_the_cpu_is_a_scale() -> None:
    suite = [workload("a"), workload("plain", tuned="")]
    planned = plan_trials(suite, ("cpu", "gpu0"), SMOKE, resolve_variants("", True, suite), {})
    copies = {HOST_FED, WITHOUT_COPY}
    assert [copies & set(one.variants) for one in planned] == [set(), copies] * 2
    found = {one.id: set(one.variants) for one in with_cpu_to_compare(planned, suite)}
    assert found["a.cpu.0"] == {BASELINE, TUNED}
    assert HOST_FED in found["a.gpu0.0"]
    assert STAGES in found["plain.cpu.0"], "its tuned is made of the remedies measured there"


def test_what_cannot_run_on_several_gpus_is_not_planned_there_and_said_once() -> None:
    ladder = {"xla": Rung(script="a.py", params={"JIT_COMPILE": True}), "batch": Rung(script="a.py")}
    alone = workload("a", ladder=ladder)
    spread = replace(alone, name="b", scripts={"b.py": "", "tuned.py": "DataParallel("}, ladder={})
    serves = workload("c", requests=Requests(batch_sizes=(1,)))
    suite, devices = [alone, spread, serves], ("gpu0", "gpu0+gpu1")
    variants = resolve_variants("baseline,tuned,opt:xla,opt:batch", True, suite)
    planned = {one.id: one.variants for one in plan_trials(suite, devices, SMOKE, variants, {})}
    assert planned["a.gpu0.0"] == (BASELINE, TUNED, "opt:xla", "opt:batch")
    assert planned["a.gpu0+gpu1.0"] == (BASELINE, "opt:batch")
    assert planned["b.gpu0+gpu1.0"] == (BASELINE, TUNED)
    assert "c.gpu0.0" in planned and "c.gpu0+gpu1.0" not in planned
    said = not_applicable(suite, devices, variants)
    assert [each.split(": ")[1] for each in said] == ["a (tuned)", "a (opt:xla)", "c"]
    assert not not_applicable(suite, ("gpu0", "gpu1"), variants)


@pytest.mark.parametrize("name", ["gpt2", "resnet50"])
def test_tuned_scripts_of_large_models_train_on_several_gpus(name: str) -> None:
    (one,) = (each.workload for each in built_in() if each.workload.name == name)
    rungs = [f"opt:{rung}" for rung in one.ladder]
    apart = [variant for variant in (BASELINE, TUNED, *rungs) if one_device_only(one, variant)]
    assert apart == (["opt:xla-float32"] if name == "gpt2" else [])


def test_breakdown_variants_run_only_in_the_first_trial() -> None:
    suite = [workload("a"), workload("resnet50")]
    planned = plan_trials(
        suite, ("cpu",), QUICK, resolve_variants("baseline,model-only,opt:fp16,tuned", True, suite), {}
    )
    by_name = {one.id: one.variants for one in planned}
    assert by_name["a.cpu.0"] == (BASELINE, "model-only", TUNED)
    assert by_name["a.cpu.1"] == by_name["a.cpu.2"] == (BASELINE, TUNED)
    assert by_name["resnet50.cpu.1"] == (BASELINE, "opt:fp16", TUNED)
    only = plan_trials(suite, ("cpu",), QUICK, resolve_variants("model-only", True, suite), {})
    assert {one.variants for one in only} == {("model-only",)}, "explicitly selected variants are repeated"


def test_trials_are_interleaved_by_index() -> None:
    suite = [workload(name, params={"BATCH_SIZE": 32}) for name in "ab"]
    planned = plan_trials(suite, ("cpu", "gpu0"), QUICK, resolve_variants("", True, suite), {"BATCH_SIZE": 8})
    assert [trial.id for trial in planned[:5]] == ["a.cpu.0", "a.gpu0.0", "b.cpu.0", "b.gpu0.0", "a.cpu.1"]
    assert len({trial.id for trial in planned}) == len(planned) == 4 * QUICK.max_trials
    assert [trial.index for trial in planned] == sorted(trial.index for trial in planned)
    assert all(trial.params == {"BATCH_SIZE": 8} for trial in planned)


SCRIPT = "BATCH_SIZE = 32\nFOLDER = ''\n"
PICTURES = Data(name="pictures", shape=(4,), classes=2, train=2, test=2, constant="FOLDER")


def test_spec() -> None:
    full = PROFILES["full"]
    one = workload(
        "resnet50", SCRIPT, params={"BATCH_SIZE": 32, "FOLDER": ""}, datasets=(PICTURES,),
        requests=Requests(batch_sizes=(1,)), device_params={"gpu": {"BATCH_SIZE": 64}},
    )  # fmt: skip
    variants = {"resnet50": ("tuned", "input-only", "opt:fp16")}
    planned = plan_trials([one], ("gpu1",), full, variants, {"BATCH_SIZE": 8})
    options = Options(seed=7, arguments=("--fast",), call=2, mounts=(Path("/data/x"),))
    first, second = (
        spec_for(each, one, full, options, folder="/script", data={"pictures": "/d"}) for each in planned[:2]
    )
    text = "BATCH_SIZE = 8\nFOLDER = '/d'\n"
    assert first.scripts == {
        # For its call, also where it is not measured.
        BASELINE: Script(path="/script/resnet50.py", text=text),
        "tuned": Script(path="/script/tuned.py", text=text),
        "opt:fp16": Script(path="/script/tuned.py", text=text),
    }
    assert (first.arguments, first.call, first.mounts, first.seed) == (("--fast",), 2, ("/data/x",), 7)
    assert (first.device, first.gpus, first.data) == ("gpu", 1, {"pictures": "/d"})
    assert first.requests == one.requests
    assert first.variants == variants["resnet50"]
    assert (first.windows, first.window_s, first.variant_s) == (full.windows, full.window_s, full.variant_s)
    assert first.analysis_variant_s == full.analysis_variant_s
    assert first.whole_s == pytest.approx(0.8 * full.limit_s / 2)
    assert first.full and first.evaluate
    assert not second.full and not second.evaluate, "only the first trial trains the published epochs"
    assert all(measures_speed(variant) for variant in second.scripts)


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.workload.name for entry in entries]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with scripts of the user."""
    monkeypatch.chdir(tmp_path)
    two = "# /// tfbench\n# title = 'A'\n# [also.wide]\n# title = 'B'\n# ///\n"
    return write_files(
        tmp_path, {"train.py": "A = 1\n", "two.py": two, "other/train.py": "", "cifar10-mlp": ""}
    )


def test_default_is_the_default_suite_and_all_is_everything() -> None:
    assert built_in() == tuple(sorted(built_in(), key=lambda entry: entry.workload.name))
    assert select(["all"]) == built_in()
    assert names(select([])) == ["cats-dogs", "cifar10-mlp", "cifar100-mlp", "fashion-mnist-mlp"]
    assert names(select([], on_gpus=True)) == ["cats-dogs", "cifar100-mlp", "gpt2", "resnet50"]
    (example,) = (each.workload for each in select([str(ROOT / "examples/train.py")]))
    assert len(example.scripts["train.py"].splitlines()) <= 40, "it is short"
    assert example.params.keys() >= {"BATCH_SIZE", "EPOCHS"} and example.title != "train.py"
    assert [data.name for data in example.datasets] == ["cifar10"]


def test_names_and_paths_in_the_given_order_without_duplicates(folder: Path) -> None:
    chosen = select(["two.py", "cifar10-mlp", "./train.py", "cifar10-mlp", str(folder / "train.py")])
    assert names(chosen) == ["two", "wide", "cifar10-mlp", "train"]
    assert chosen[3].path == folder / "train.py"
    assert names(select(["all", "train.py"])) == [*names(built_in()), "train"]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my script (2).py", "my-script-2"),
        ("machine.py", "machine-script"),
        ("\u0442\u0435\u0441\u0442.py", "script-e34f6d"),
        ("\u00fcbung 1.py", "ubung-1"),
    ],
)
def test_a_name_is_made_of_any_path(tmp_path: Path, file: str, name: str) -> None:
    (entry,) = select([str(write_files(tmp_path, {file: "STEPS = 1"}) / file)])
    assert (entry.workload.name, entry.workload.title, entry.path) == (name, file, tmp_path / file)


def test_a_script_that_is_named_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"train.py": "STEPS = 1"})
    monkeypatch.chdir(tmp_path)
    assert names(select(["train.py", "./train.py", f"../{tmp_path.name}/train.py"])) == ["train"]


def test_a_package_has_its_own_name(tmp_path: Path) -> None:
    files = [
        str(write_files(tmp_path, {f"{name}/__main__.py": ""}) / name / "__main__.py") for name in ("a", "b")
    ]
    assert names(select(files)) == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["train"], "Unknown workload 'train'", "the path of a script"),
        (["other"], "Unknown workload 'other'", "all"),
        (["train.py", "other/train.py"], "both named train", "Rename"),
    ],
)
def test_what_cannot_be_selected(folder: Path, words: list[str], message: str, hint: str) -> None:
    with user_error(UsageError, re.escape(message), hint=hint):
        select(words)


def test_sources_tell_what_changed(folder: Path) -> None:
    mount = folder / "data"
    write_files(mount, {"a.csv": "1", "deep/b.csv": "2"})

    def hashes() -> Mapping[str, str]:
        return sources(select(["other/train.py", "cifar10-mlp"]), [mount])

    before = hashes()
    beside = f"{BESIDE}train"
    assert set(before) == {"workloads", "train", beside, "cifar10-mlp", str(mount)}
    files = {"other/helper.py": "train", "other/a.csv": beside, "data/deep/b.csv": str(mount), "two.py": None}
    for path, changed in files.items():
        (folder / path).write_text("changed")
        after = hashes()
        assert {name for name in before if before[name] != after[name]} == ({changed} if changed else set())
        before = after


def test_code_in_folders_elsewhere_that_links_lead_to_counts(folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "libs", {"net.py": "1", "deep/loss.py": "1", "data.csv": "1"})
    (folder / "other/pkg").symlink_to(tmp_path / "libs")
    (folder / "other/again").symlink_to(tmp_path / "libs/deep")
    (folder / "other/around").symlink_to(folder)
    (folder / "other/kernel").symlink_to("/proc/self")
    (tmp_path / "libs/loop").symlink_to(tmp_path / "libs")

    def states() -> Mapping[str, FileState]:
        return catalogue.beside(select([str(folder / "other/train.py")])).scripts["train"]

    before = states()
    assert {"pkg/net.py", "pkg/deep/loss.py", "again/loss.py"} <= before.keys()
    assert not [
        name for name in before if name.startswith(("around/", "kernel/")) or name.endswith("data.csv")
    ]
    assert not [name for name in before if "loop/loop" in name]
    times = (tmp_path / "libs/deep/loss.py").stat()
    write_files(tmp_path / "libs", {"deep/loss.py": "2"})
    os.utime(tmp_path / "libs/deep/loss.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed_files(before, states()) == ["again/loss.py", "pkg/deep/loss.py"]


def test_code_below_mounts_counts_and_data_does_not(tmp_path: Path) -> None:
    write_files(tmp_path, {"lib/pkg/net.py": "1", "lib/data.csv": "1", "one.py": "1", "other.py": "1"})
    mounts = (tmp_path / "lib", tmp_path / "one.py")
    before = catalogue.python_below(mounts)
    assert [*before] == [f"{tmp_path}/lib/pkg/net.py", f"{tmp_path}/one.py"]
    write_files(tmp_path, {"lib/pkg/net.py": "2", "lib/data.csv": "2", "other.py": "2"})
    assert changed_files(before, catalogue.python_below(mounts)) == [f"{tmp_path}/lib/pkg/net.py"]


def test_large_folders_are_hashed_by_their_scripts_or_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(
        tmp_path,
        {"train.py": "1", "a/b.txt": "1", "__pycache__/x.pyc": "1", ".git/HEAD": "1", ".cache/x": "1"},
    )
    (tmp_path / "a/link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "a/pipe")
    first = folder_sha256(tmp_path)
    write_files(tmp_path, {"__pycache__/x.pyc": "2", ".git/HEAD": "2", ".cache/x": "2"})
    assert folder_sha256(tmp_path) == first
    monkeypatch.setattr(catalogue, "MAX_BYTES", 1)
    write_files(tmp_path, {"a/b.txt": "22"})
    by_size = folder_sha256(tmp_path)
    assert by_size != first
    monkeypatch.setattr(catalogue, "MAX_FILES", 1)
    only_scripts = folder_sha256(tmp_path)
    write_files(tmp_path, {"a/b.txt": "333"})
    assert folder_sha256(tmp_path) == only_scripts
    write_files(tmp_path, {"train.py": "2"})
    assert folder_sha256(tmp_path) != only_scripts
    (tmp_path / "train.py").chmod(0)
    assert folder_sha256(tmp_path)


CPU = Options(device="cpu")


def test_options_override_the_profile() -> None:
    plan = resolve(
        replace(CPU, profile="smoke", trials=4, stall_s=7.0, workloads=("cifar10-mlp",), machine=False)
    )
    assert (plan.profile.name, plan.profile.trials, plan.profile.max_trials) == ("smoke", 4, 4)
    assert plan.profile.stall_s == 7.0
    assert [trial.index for trial in plan.planned] == [0, 1, 2, 3]
    assert {BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED} < set(plan.planned[0].variants)
    assert {each.variants for each in plan.planned[1:]} == {(BASELINE, TUNED)}
    assert plan.targets == ("cpu",)
    for path in ("nothing-here", "/", "/home/../proc", "/tfbench/x", "/dev/null"):
        with user_error(UsageError, rf"(--|Cannot )mount {path}", hint="Give "):
            resolve(replace(CPU, mounts=(Path(path),)))


def test_git_commit_and_run_ids(tmp_path: Path) -> None:
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
    then = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    ids = {new_run_id(then) for _ in range(20)}
    assert len(ids) > 1
    assert all(re.fullmatch(r"20260102-030405-[0-9a-f]{4}", item) for item in ids)
    assert new_run_id(then + datetime.timedelta(seconds=1)) > max(ids), "they sort by time"


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
    Path(script).write_text("x = [print()]")
    with pytest.raises(UsageError, match=r"no constants in mine\.py"):
        resolve(replace(CPU, workloads=(script,), params={"rate": "0.5"}))


def test_files_that_vanish_while_a_folder_is_hashed_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"train.py": "1"})
    expected = folder_sha256(tmp_path)
    found = (tmp_path / "gone.tmp", tmp_path / "train.py")
    monkeypatch.setattr(catalogue, "_files", lambda folder: iter(found))
    assert folder_sha256(tmp_path) == expected


def test_a_run_of_nothing_but_what_does_not_apply_says_why(standin) -> None:
    standin.load(f"gpu 0 {UUID} -1\ngpu 1 {UUID.replace('1', '2')} -1\n")
    options = Options(device="gpu0+gpu1", gpus="all", variants="tuned")
    with pytest.raises(UsageError, match="inference uses one device"):
        resolve(replace(options, workloads=("resnet50-infer",)))
    (remark,) = resolve(replace(options, workloads=("gpt2", "cifar10-mlp"))).remarks
    assert "cifar10-mlp" in remark and "gpt2" not in remark


def test_paths_are_placed_in_scripts_and_what_is_after_them_moves() -> None:
    text = "X = '/tfbench/data/ä'  # see /tfbench/data\nmodel.fit(X)\n"
    fix = Fix(
        edits=(Edit(start=len(text.encode()) - 2, end=len(text.encode()) - 2, text=", verbose=2"),),
        aim=Aim.LAUNCH,
    )
    spec = Spec(
        scripts={BASELINE: Script(path="/tfbench/user/a.py", text=text)}, fixes={"fix:a": fix},
        data={"ä": "/tfbench/data/ä"}, arguments=("/tfbench/x",), variants=(BASELINE,), device="cpu", gpus=0,
    )  # fmt: skip
    found = placed(spec, lambda path: path.replace("/tfbench", '/a"b'))
    assert found.scripts[BASELINE] == Script(
        path='/a"b/user/a.py', text="X = '/a\"b/data/ä'  # see /tfbench/data\nmodel.fit(X)\n"
    )
    changed = applied(found.scripts[BASELINE].text, found.fixes.values())
    assert changed.endswith("model.fit(X, verbose=2)\n")
    assert (found.arguments, found.data) == (("/tfbench/x",), {"ä": '/a"b/data/ä'})
    assert placed(spec, str) == spec
