import base64
import json
import lzma
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.analysis import analyse
from harness.cli.rerun import differences_between
from harness.defaults import PROFILES
from harness.engines import DOWNLOADS_DIR
from harness.errors import StoreError, UsageError
from harness.images.recipes import Recipes
from harness.model.analysis import CaveatKind
from harness.model.run import DataInfo, Run, Status
from harness.model.workload import BESIDE, FileState
from harness.options import Options
from harness.paths import Paths
from harness.progress import Silent
from harness.run import prepare as session
from harness.run.catalogue import sources
from harness.run.prepare import Prepared
from harness.run.recording import pack_for_page, unpack
from harness.run.repeat import expected_run, requested_resources, rerun_options, resolve_rerun
from harness.run.resolve import Plan, private_values, resolve
from harness.run.started import identity, is_own, remember
from harness.run.store import RunFolder, read_run
from reports.page import render_html
from tests import builders
from tests.builders import image
from tests.commands import Printed, tfbench
from tests.conftest import ROOT
from tests.endtoend import script
from tests.errors import user_error
from tests.fakes import FakeEngine, Script
from tests.folders import write_files
from tests.wheelhouse import RAN, SOURCE_TREE, make_wheel, use_only
from workloads.protocol import PRIVATE

OPTIONS = Options(
    profile="smoke", device="cpu", workloads=("cifar100-mlp",), params={"BATCH_SIZE": "64"}, seed=7
)


def recorded(run: Run | None = None, *, options: Options = OPTIONS, **settings: float) -> Run:
    """Return a run with a manifest like that of `tfbench bench`."""
    run = run or builders.cpu_run(trials=3)
    plan = resolve(options)
    planned = tuple(
        replace(trial, params=plan.planned[0].params, variants=plan.planned[0].variants)
        for trial in run.planned
    )
    profile = replace(PROFILES["smoke"], **settings)
    manifest = replace(run.manifest, options=options, profile=profile, sources=sources(plan.entries))
    workloads = tuple(entry.workload for entry in plan.entries)
    return replace(run, manifest=manifest, planned=planned, workloads=workloads, ended=True)


def resolve_here(run: Run, **settings: Any) -> Plan:
    return resolve_rerun(run, rerun_options(run, Options(**settings)))


def test_rerun_keeps_plan_parameters_and_seed(tmp_path):
    run = recorded(window_s=0.5)
    plan = resolve_here(run, out=tmp_path)
    assert plan.planned == run.planned
    assert plan.options.seed == 7
    assert plan.options.out == tmp_path
    assert dict(plan.options.params) == {"BATCH_SIZE": "64"}
    assert plan.profile.window_s == 0.5, "settings are those of the run, not of the current profile"
    assert plan.profile.stall_s == PROFILES["smoke"].stall_s
    assert (plan.profile.trials, plan.profile.max_trials) == (3, 3), "same number of trials"
    run = recorded(builders.cpu_run(trials=5))
    narrow = replace(run, trials=run.trials[:3])  # the stopping rule skipped two
    assert [trial.index for trial in resolve_here(narrow, out=tmp_path).planned] == [0, 1, 2]
    last = replace(run.trials[1], status=Status.INTERRUPTED)
    cut = replace(run, trials=(run.trials[0], last), ended=False)
    assert resolve_here(cut, out=tmp_path).planned == run.planned
    run = with_options(replace(OPTIONS, price="cpu=0.12,currency=EUR"))
    assert resolve_here(run, out=tmp_path).options.price == "cpu=0.12,currency=EUR"
    assert resolve_here(run, out=tmp_path, price="0.40").options.price == "0.40"
    both = recorded(builders.gpu_run(trials=2))
    assert {trial.device for trial in resolve_here(both, out=tmp_path, device="cpu").planned} == {"cpu"}
    with pytest.raises(UsageError, match="gpu1"):
        resolve_here(both, out=tmp_path, device="gpu1")


def test_scripts_of_the_run_are_found_by_name(tmp_path):
    here = write_files(tmp_path, {"mine.py": "A = 1"}) / "mine.py"
    run = with_options(replace(OPTIONS, workloads=("cifar100-mlp", "/gone/mine.py"), params={}))
    with user_error(UsageError, "does not exist here", hint="rerun REPORT mine.py"):
        rerun_options(run, Options())
    options = rerun_options(run, Options(workloads=(str(here),)))
    assert options.workloads == ("cifar100-mlp", str(here))
    assert [entry.workload.name for entry in resolve(options).entries] == ["cifar100-mlp", "mine"]
    for other in ("other.py", "cifar100-mlp"):
        with pytest.raises(UsageError, match=f"{other} is no script"):
            rerun_options(run, Options(workloads=(str(here), other)))
    given = Options(
        workloads=(str(here),), arguments=("--x",), environment={"A": "1"}, mounts=(tmp_path,), call=2
    )
    assert replace(rerun_options(with_options(given), Options()), engine="auto", device="auto") == given


def test_differences_are_found_before_anything_is_built(tmp_path):
    paths = Paths(checkout=ROOT, cache=tmp_path)
    lock = Recipes(ROOT / "images").lock_sha256("cpu")
    built = replace(builders.image(), lock_sha256=lock, contents="2" * 64)
    here = expected_run(recorded(), rerun_options(recorded(), Options()), paths, {"cpu": built})
    for images in ({}, {"cpu": built}):
        again = expected_run(here, rerun_options(here, Options()), paths, images)
        assert differences_between(here, again) == {}
    other = (replace(image, lock_sha256="1" * 64, contents="3" * 64) for image in here.manifest.images)
    system = {**here.manifest.system, "host_processor_model_name": "Another"}
    elsewhere = replace(here.manifest, system=system, images=tuple(other), gpus=(builders.gpu(),))
    differences = differences_between(replace(here, manifest=elsewhere), here)
    result = {name: values for (_, name), values in differences.items()}
    assert result["host_processor_model_name"][0] == "Another"
    assert result["cpu"] == ("1" * 64, lock)
    assert result["cpu image contents"] == ("3" * 64, "2" * 64)
    assert result["GPU 0 name"] == ("NVIDIA H200", "none")


UNTRUSTED = replace(
    OPTIONS, images={"cpu": "evil.example/x"}, gpus="all", cpus="0", cpu_quota=0.5,
    memory_gib=1.5, mounts=(Path("/home/me"),),
)  # fmt: skip


def test_unsafe_trial_ids_are_rejected():
    """Trial ids are folder names, and existing trial folders are deleted."""
    text, _ = pack_for_page(analyse(builders.cpu_run(trials=1)), whole=True)
    document = msgspec.msgpack.decode(lzma.decompress(base64.b64decode(text)))
    for name in ("/home", "../../elsewhere", "", "."):
        document["analysis"]["run"]["planned"][0]["id"] = name
        changed = lzma.compress(msgspec.msgpack.encode(document), preset=0)
        with pytest.raises(StoreError, match=r"planned.*id"):
            unpack(base64.b64encode(changed).decode())


@pytest.mark.parametrize("value", [1 << 63, float("nan"), float("inf")])
def test_numbers_that_no_run_has_are_rejected_in_a_page(value):
    text, _ = pack_for_page(analyse(builders.cpu_run(trials=1)), whole=False)
    document = msgspec.msgpack.decode(lzma.decompress(base64.b64decode(text)))
    document["analysis"]["run"]["trials"][0]["windows"][0]["end_ns"] = value
    changed = lzma.compress(msgspec.msgpack.encode(document), preset=0)
    with pytest.raises(StoreError, match="damaged"):
        unpack(base64.b64encode(changed).decode())


def test_settings_that_need_consent():
    assert requested_resources(recorded(), rerun_options(recorded(), Options())) == {}
    run = with_options(UNTRUSTED)
    assert requested_resources(run, rerun_options(run, Options())) == {
        "--image": "cpu=evil.example/x", "--mount": "/home/me", "--gpus": "all", "--cpus": "0", "--cpu-quota": "0.5",
        "--memory": "1.5 GiB",
    }  # fmt: skip
    bare = replace(run, manifest=replace(run.manifest, engine=replace(run.manifest.engine, isolated=False)))
    assert requested_resources(bare, rerun_options(bare, Options()))["--engine"] == "local"
    assert "--engine" not in requested_resources(bare, rerun_options(bare, Options(engine="docker")))
    own = with_options(replace(OPTIONS, workloads=("cifar100-mlp", "/x/a.py")))
    assert requested_resources(own, own.manifest.options) == {"the scripts": "/x/a.py"}
    assert requested_resources(own, replace(own.manifest.options, workloads=("/mine/a.py",))) == {}
    # Their values come from the shell of whoever repeats the run.
    private = replace(
        OPTIONS, arguments=("--key=***",), environment={"TOKEN": "***"}, public_environment={"A": "1"}
    )
    assert requested_resources(with_options(private), private) == {
        "--arg": "--key=***", "--env": "TOKEN=***", "--env-public": "A=1",
    }  # fmt: skip
    # A value cannot pass for further lines of what is asked.
    several = replace(OPTIONS, arguments=("a\nAll is as in your own run",))
    assert requested_resources(with_options(several), several) == {"--arg": "a\\nAll is as in your own run"}


def with_options(options: Options) -> Run:
    run = recorded()
    return replace(run, manifest=replace(run.manifest, options=options))


def rerun(folder: Path, run: Run, *arguments: str) -> Printed:
    """Call `tfbench rerun` on a run's report and check that no trial ran."""
    page, runs = folder / "report.html", folder / "runs"
    record, shown = pack_for_page(analyse(run), whole=True)
    page.write_text(render_html(shown, record=record, code=""), encoding="utf-8")
    printed = tfbench("rerun", page, "--out", runs, *arguments)
    assert not runs.exists()
    return printed


def test_nothing_runs_without_consent_and_check_prints_what_needs_it(tmp_path):
    run = with_options(replace(UNTRUSTED, mounts=(tmp_path,)))
    printed = rerun(tmp_path, run)
    assert printed.code == 2
    assert "--image cpu=evil.example/x" in printed.err and "Allow this with --yes" in printed.err
    elsewhere = {**run.manifest.system, "host_processor_model_name": "Another CPU"}
    changed = replace(run, manifest=replace(run.manifest, system=elsewhere, commit="0" * 40))
    printed = rerun(tmp_path, changed, "--check")
    assert printed.code == 0
    assert "--image cpu=evil.example/x" in printed.err
    assert "Another" in printed.err
    assert f"commit {'0' * 40}" in " ".join(printed.err.split())


def test_scripts_are_named_after_the_report(tmp_path):
    here = write_files(tmp_path, {"here/mine.py": "A = 1"}) / "here/mine.py"
    run = with_options(replace(OPTIONS, workloads=("/gone/mine.py",), params={}))
    assert rerun(tmp_path, run, "--check").code == 2
    contradicting = rerun(tmp_path, run, str(here), "--check")
    assert contradicting.code == 6 and "which its options do not select" in contradicting.err
    run = replace(
        run,
        planned=tuple(replace(trial, workload="mine") for trial in run.planned),
        trials=tuple(replace(trial, workload="mine") for trial in run.trials),
        workloads=tuple(replace(workload, name="mine") for workload in run.workloads),
    )
    assert rerun(tmp_path, run, str(here), "--check").code == 0


def test_what_a_report_says_is_in_one_line(tmp_path):
    run = recorded()
    hostile = replace(
        run, manifest=replace(run.manifest, tfbench_version="1\nNo differences known.", commit="2\n3")
    )
    printed = rerun(tmp_path, hostile, "--check").err
    assert "\nNo differences" not in printed and "\n3" not in printed and "No differences known." in printed


def test_check_names_another_engine(tmp_path):
    run = recorded()
    isolated = replace(
        run, manifest=replace(run.manifest, engine=replace(run.manifest.engine, isolated=True))
    )
    printed = rerun(tmp_path, isolated, "--check", "--engine", "local")
    assert printed.code == 0
    assert "isolated: yes -> no" in " ".join(printed.err.split())


@pytest.mark.parametrize("given", ["--engine=none", "--price=abc"])
def test_check_refuses_what_a_rerun_refuses(tmp_path, given):
    printed = rerun(tmp_path, recorded(), "--check", given)
    assert printed.code == 2, printed.err


def test_a_report_cannot_have_a_library_built_on_the_host(tmp_path):
    hostile = write_files(tmp_path, SOURCE_TREE)
    run = with_options(replace(OPTIONS, packages=(f"x @ {hostile.as_uri()}",)))
    printed = rerun(tmp_path, run, "--check")
    assert printed.code == 2
    assert "not the name of a library" in printed.err
    assert not (hostile / RAN).exists()


def test_libraries_of_others_are_not_asked_for_before_consent(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")
    run = with_options(replace(OPTIONS, packages=("evilpkg",)))
    run = replace(run, manifest=replace(run.manifest, commit="0" * 40))
    for arguments, reason in (((), "looked up with --yes"), (("--yes",), "pip finds no wheel of evilpkg")):
        printed = rerun(tmp_path, run, "--check", *arguments)
        said = " ".join(printed.err.split())
        assert printed.code == 0 and "The run uses --with evilpkg" in said
        assert f"Images are not compared: {reason}" in said or reason in said.partition("Images are not")[2]
        assert "Differs here:" in said and "image" not in said.partition("Differs here:")[2]


class Lines(Silent):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


class Environment:
    def __init__(self, folder: Path) -> None:
        self.file = script(folder, "good", "keras.datasets.mnist")
        self.paths = Paths(checkout=ROOT, cache=folder.with_name(f"{folder.name}-cache"))
        self.options = Options(
            profile="quick",
            device="cpu",
            workloads=(str(self.file),),
            out=folder / "runs",
            cloud_metadata=False,
        )
        self.image = image()
        self.data = DataInfo(workload="good", name="d", kind="procedural", sha256="3", why="no network")

    def prepare(self, plan: Plan | None = None) -> Prepared:
        """Prepare a run and create its folder, as if it was interrupted before its first trial ended."""
        prepared = session.prepare(plan or resolve(self.options), self.paths, Silent())
        prepared.folder.create(prepared.run, prepared.files)
        return prepared


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    made = Environment(tmp_path)
    engine = FakeEngine(Script())
    monkeypatch.setattr(session, "_connect", lambda *_: engine)
    monkeypatch.setattr(session, "_images", lambda *_: {"cpu": made.image})
    monkeypatch.setattr(session, "ensure_data", lambda *_: (tmp_path, made.data))
    return made


def test_containers_get_the_options_and_secrets_are_not_recorded(environment, monkeypatch):
    with pytest.raises(StoreError, match="Cannot write /proc/runs:"):  # before anything is built
        session.prepare(
            resolve(replace(environment.options, out=Path("/proc/runs"))), environment.paths, Silent()
        )
    given = {"API_TOKEN": "s3cr3t", "PROXY": "http://me:s3cr3t@host", "MODE": "fast"}
    more = {**given, "PYTHONPATH": "/data/lib", "TF_NUM_INTEROP_THREADS": "2"}
    arguments = ("--rate=0.5", "--api-key=s3cr3t-2", "--token", "s3cr3t-3", "--url", "http://x/s3cr3t")
    # Docker rejects spaces, which --cpus allows.
    environment.options = replace(
        environment.options,
        environment=more,
        public_environment={"PUBLIC_KEY": "1"},
        arguments=arguments,
        cpus=" 0-0, 0",
    )
    prepared = environment.prepare()
    assert {job.container.cpus for job in prepared.jobs} == {"0"}
    assert prepared.jobs[0].container.environment["PYTHONPATH"] == "/tfbench:/data/lib"
    options = prepared.manifest.options
    assert options.environment == {**more, **dict.fromkeys(given, "***")}
    assert options.public_environment == {"PUBLIC_KEY": "1"}
    shown = ("--rate=0.5", "--api-key=***", "--token", "***", "--url", "http://x/***")
    assert options.arguments == shown
    assert prepared.jobs[-1].spec.arguments == shown
    container = prepared.jobs[-1].container
    assert {**given, "PUBLIC_KEY": "1"}.items() <= dict(container.environment).items()
    assert json.loads(container.environment[PRIVATE])["arguments"] == list(arguments)
    assert {"s3cr3t", "s3cr3t-2", "s3cr3t-3", "http://me:s3cr3t@host"} == set(container.hidden)
    assert "s3cr3t" not in "".join(path.read_text() for path in prepared.folder.path.rglob("*.json"))
    with user_error(UsageError, "API_TOKEN, PROXY, MODE, API_KEY, TOKEN, URL", hint="export API_TOKEN="):
        session.resume(prepared.folder.path, environment.paths, Silent())
    values = {**given, "API_KEY": "s3cr3t-2", "TOKEN": "s3cr3t-3", "URL": "http://x/s3cr3t"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    again = session.resume(prepared.folder.path, environment.paths, Silent())
    assert again.jobs[0].container.environment == prepared.jobs[0].container.environment
    assert private_values(environment.options) == values, "what a node of a fleet gets"


def test_resume_uses_the_stored_plan(environment):
    """The plan of a rerun can have fewer trials than its options imply."""
    whole = resolve(environment.options)
    cut = replace(
        whole, planned=whole.planned[:2], profile=replace(whole.profile, trials=2, max_trials=2, window_s=0.5)
    )
    prepared = environment.prepare(cut)
    again = session.resume(prepared.folder.path, environment.paths, Silent())
    assert [job.planned for job in again.jobs] == list(cut.planned)
    assert again.plan.profile == cut.profile
    assert again.jobs[0].spec.window_s == 0.5
    assert again.manifest.run_id == prepared.manifest.run_id


@pytest.mark.parametrize(("isolated", "engine"), [(True, "docker"), (False, "local")])
def test_resume_takes_the_engine_that_the_run_has_used(environment, monkeypatch, isolated, engine):
    asked: list[str] = []
    connect = session._connect

    def connected(name: str, progress: Silent) -> object:
        asked.append(name)
        return connect(name, progress)

    prepared = environment.prepare()
    assert prepared.manifest.options.engine == "auto"
    used = replace(prepared.manifest.engine, isolated=isolated)
    folder = RunFolder(environment.options.out / "used")
    folder.create(replace(prepared.run, manifest=replace(prepared.manifest, engine=used)), prepared.files)
    monkeypatch.setattr(session, "_connect", connected)
    session.resume(folder.path, environment.paths, Silent())
    assert asked == [engine]


def test_a_run_folder_of_others_is_resumed_only_with_consent(environment, tmp_path, monkeypatch):
    monkeypatch.setenv("TFBENCH_CACHE", str(environment.paths.cache))
    prepared = environment.prepare()
    assert is_own(identity(read_run(prepared.folder.path).manifest), environment.paths)
    # With the id and the options of a run of the user's, from a report that was passed on.
    other_engine = replace(prepared.manifest.engine, isolated=not prepared.manifest.engine.isolated)
    assert not is_own(identity(replace(prepared.manifest, engine=other_engine)), environment.paths)
    options = replace(prepared.manifest.options, environment={"API_TOKEN": "***"}, network=True)
    of_others = replace(
        prepared.manifest, options=options, engine=replace(prepared.manifest.engine, isolated=False)
    )
    for manifest in (of_others, replace(of_others, run_id="20261127-000000-ffff")):
        folder = RunFolder(tmp_path / f"{manifest.run_id}-of-others")
        folder.create(replace(prepared.run, manifest=manifest), prepared.files)
        printed = tfbench("bench", "--resume", folder.path)
        assert printed.code == 2
        for used in (f"the scripts {environment.file}", "--env API_TOKEN=***", "--engine local", "--network"):
            assert used in printed.err
        assert "Engine:" not in printed.err  # nothing has begun
        assert "Allow this with --yes" in printed.err
        allowed = tfbench("bench", "--resume", folder.path, "--yes")
        assert "API_TOKEN" in allowed.err and "--yes" not in allowed.err  # its value is what lacks now
        limits = tmp_path / "limits.toml"
        limits.write_text("limits = ['health = fine']", encoding="utf-8")
        assert "limits.toml" in tfbench("bench", "--resume", folder.path, "--accept", limits).err


def test_marks_of_started_runs_stay_few(tmp_path):
    paths = Paths(checkout=ROOT, cache=tmp_path)
    for number in range(3):
        remember(b"%d" % number, paths)
    first = next(iter((tmp_path / "started").iterdir()))
    for number in range(1100):
        old = first.with_name(f"{number}")
        old.touch()
        os.utime(old, (number, number))
    remember(b"new", paths)
    assert all(is_own(b"%d" % number, paths) for number in range(3)) and is_own(b"new", paths)
    assert len(list((tmp_path / "started").iterdir())) == 1000


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda one: setattr(one, "image", replace(one.image, digest="sha256:9")), "images"),
        (lambda one: setattr(one, "data", replace(one.data, kind="real", sha256="9")), "data"),
        (lambda one: one.file.write_text(one.file.read_text() + "\n# mended\n"), "good.py"),
    ],
)
def test_resume_is_rejected_if_inputs_changed(environment, change, named):
    path = environment.prepare().folder.path
    change(environment)
    with pytest.raises(StoreError, match=f": {named}[.] .*start a new run"):
        session.resume(path, environment.paths, Silent())


def test_what_scripts_download_is_kept_for_runs_without_network(environment):
    def prepared(**changes: object) -> Prepared:
        options = replace(environment.options, machine=False, **changes)
        return session.prepare(resolve(options), environment.paths, Silent())

    def seen(made: Prepared) -> tuple[bool, list[Path], list[str]]:
        container = made.jobs[0].container
        folders = [each.host for each in container.mounts if each.container == DOWNLOADS_DIR]
        assert all(each in dict(container.environment) for each in ("KERAS_HOME", "HF_HOME")) == bool(folders)
        return container.network, folders, [name for name in made.manifest.sources if "downloaded" in name]

    assert seen(prepared()) == (False, [], [])
    online = prepared(network=True)
    folder = environment.paths.cache / "downloads" / "good"
    assert seen(online) == (True, [folder], [])
    assert [each.kind for each in analyse(online.run).caveats if each.kind is CaveatKind.NETWORK]
    write_files(folder, {"keras/keras.json": "{}"})
    assert seen(prepared()) == (False, [], []), "settings that Keras leaves"
    (folder / "digits.npz").write_text("1")
    offline = prepared()
    name = f"{BESIDE}good, downloaded"
    assert seen(offline) == (False, [folder], [name])
    (folder / "digits.npz").write_text("2")
    assert prepared().manifest.sources[name] != offline.manifest.sources[name]


def test_the_scripts_imports_are_added_with_their_versions(environment, tmp_path, monkeypatch):
    index = tmp_path / "index"
    make_wheel(index, "frames", "1.2")
    use_only(index, monkeypatch)
    environment.file.write_text(f"{environment.file.read_text()}\nimport frames, numpy, matplotlib\n")
    options = replace(environment.options, packages=("auto",))
    made = session.prepare(resolve(options), environment.paths, Silent())
    assert made.manifest.options.packages == ("frames==1.2",)
    assert "--with" in requested_resources(made.run, made.manifest.options)


NEIGHBOURS = {
    "helper.py": "X = 1", "data/read.csv": "1", "data/large.csv": "2", "unread.csv": "3", "other.py": "",
    "gone.txt": "", "run.log": "Engine:", ".train.py.swp": "",
}  # fmt: skip
# What happens beside a script during a run.
LATER = {
    "run.log": "Engine: local\nTrial 1", "nohup.out": "x", ".train.py.swp": "b0VIM",
    ".ipynb_checkpoints/good-checkpoint.py": "", "__pycache__/helper.cpython-311.pyc": "x", "report.html": "<html>",
    "run.prom": "x 1", "other.py": "Y = 2", "unread.csv": "4",
}  # fmt: skip


def interrupted(environment: Environment, opened: str | None) -> Path:
    """Return the folder of a run of which one trial has ended that opened these files."""
    home = write_files(environment.file.parent, NEIGHBOURS)
    prepared = environment.prepare()
    planned = next(job.planned for job in prepared.jobs if job.planned.workload == "good")
    folder = prepared.folder.open_trial(planned)
    measured = builders.cpu_run(trials=1).trials[0]
    events = ['{"kind":"start"}', '{"kind":"end"}', ""]
    folder.events.write_text("\n".join(events))
    if opened is not None:
        (folder.out / "opened.txt").write_text(opened)
    prepared.folder.close_trial(
        replace(
            measured, id=planned.id, workload="good", device="cpu", index=planned.index, status=Status.OK
        ),
        "log",
    )
    write_files(home, LATER)
    (home / "gone.txt").unlink()
    return prepared.folder.path


def test_resume_lists_neighbours_that_no_trial_has_read(environment):
    path = interrupted(environment, "good.py\nhelper.py\ndata/read.csv\nunchanged\n")
    told = Lines()
    session.resume(path, environment.paths, told)
    line = next(line for line in told.lines if "good.py" in line)
    assert all(name in line for name in ("run.log", "nohup.out", "other.py", "and 1 more"))


@pytest.mark.parametrize("name", ["good.py", "data/read.csv"])
def test_resume_is_refused_for_what_a_trial_has_read(environment, name):
    path = interrupted(environment, "helper.py\ndata/read.csv\n")
    file = environment.file.parent / name
    file.write_text(file.read_text() + "\n")
    with pytest.raises(StoreError, match=f"started: {name}[.]"):
        session.resume(path, environment.paths, Silent())
    file.unlink()
    if name != "good.py":
        with pytest.raises(StoreError, match=f"started: {name}[.]"):
            session.resume(path, environment.paths, Silent())


@pytest.mark.parametrize("opened", [None, "/\n"])
def test_resume_is_refused_where_nobody_knows_what_was_read(environment, opened):
    path = interrupted(environment, opened)
    with pytest.raises(StoreError, match=r"started: .*run\.log"):
        session.resume(path, environment.paths, Silent())


def test_a_file_is_the_same_by_content_or_by_time():
    whole, touched = (
        FileState(content="a", size=1, changed_ns=1),
        FileState(content="a", size=1, changed_ns=2),
    )
    large = FileState(content="1 1", size=1, changed_ns=1)
    assert whole.same(touched) and whole.same(large) and not touched.same(large) and not whole.same(None)
    assert session.changed_files({"a": whole, "b": whole}, {"a": touched, "c": whole}) == ["b", "c"]
