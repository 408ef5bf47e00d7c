"""Containers serve several trials; what they write is read where it is, and moved when they are gone."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.defaults import PROFILES
from harness.engines import Container, ContainerSpec, Exit
from harness.errors import EngineError, Interrupted, StoreError
from harness.model.run import Run, Status, Trial
from harness.options import Options
from harness.run.plan import plan_trials
from harness.run.runner import Job, Runner
from harness.run.servers import MOST_WAITING
from harness.run.store import RunFolder, read_run, session_of
from tests.builders import jobs, manifest, small_workload
from tests.fakes import FakeContainer, FakeEngine, RecordingProgress, Script, good_events
from tests.folders import write_files
from workloads.protocol import NEXT
from workloads.variants import BASELINE

PROFILE = replace(PROFILES["smoke"], trials=3, max_trials=3, stall_s=30, limit_s=60)
DEAD = Exit(code=137, out_of_memory=False)


class PromptEngine(FakeEngine):
    """An engine whose containers look for their first trial before the harness goes on."""

    def start(self, spec: ContainerSpec) -> Container:
        container = super().start(spec)
        if (spec.out / NEXT).exists():
            container.poll()
        return container


class Bench:
    """A run of workloads of these names, three trials each, in rounds."""

    def __init__(self, path: Path, *names: str) -> None:
        self.engine: FakeEngine = PromptEngine()
        self.folder = RunFolder(path)
        self.progress = RecordingProgress()
        workloads = tuple(map(small_workload, names))
        planned = plan_trials(workloads, ("cpu",), PROFILE, dict.fromkeys(names, (BASELINE,)), {}, ((),))
        by_name = {
            each.name: jobs([trial for trial in planned if trial.workload == each.name], each, PROFILE)
            for each in workloads
        }
        self.jobs: list[Job] = [
            next(job for job in by_name[trial.workload] if job.planned is trial) for trial in planned
        ]
        self.folder.create(Run(manifest=manifest(), workloads=workloads, planned=planned, trials=()))

    def run(self, on_trial_end: Callable[[Trial], None] | None = None) -> tuple[Trial, ...]:
        runner = Runner(
            engine=self.engine, folder=self.folder, options=Options(rate_hz=0), profile=PROFILE, sources=list,
            progress=self.progress, poll_s=0.001, on_trial_end=on_trial_end,
        )  # fmt: skip
        return runner.run(self.jobs)

    def read(self) -> tuple[Trial, ...]:
        return read_run(self.folder.path).trials


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "run", "mlp")


def test_one_container_serves_all_trials_of_a_workload(bench: Bench) -> None:
    bench.run()
    assert bench.engine.started == ["mlp.cpu.0", "mlp.cpu.1", "mlp.cpu.2"]
    assert len(bench.engine.containers) == 1
    assert [len(trial.windows) for trial in bench.read()] == [2, 2, 2]


def test_a_container_that_dies_while_it_waits_is_started_again(bench: Bench) -> None:
    def kill(trial: Trial) -> None:
        bench.engine.containers[-1].exit = DEAD

    bench.run(kill)
    assert len(bench.engine.containers) == 3
    assert bench.engine.left_behind == []
    assert [trial.status for trial in bench.read()] == [Status.OK] * 3
    assert [len(trial.windows) for trial in bench.read()] == [2, 2, 2]
    for trial in bench.read():
        assert not bench.folder.trial(trial.id).out.is_symlink()


def test_the_containers_that_wait_longest_are_closed(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(MOST_WAITING + 2)]
    bench = Bench(tmp_path / "run", *names)
    alive: list[list[str]] = []

    def look(trial: Trial) -> None:
        alive.append([session_of(each.trial) for each in bench.engine.left_behind])

    bench.run(look)
    assert max(map(len, alive)) == MOST_WAITING
    assert alive[len(names) - 1] == [f"{name}.cpu" for name in names[2:]]
    assert [trial.status for trial in bench.read()] == [Status.OK] * 3 * len(names)
    assert bench.engine.left_behind == []


def test_a_few_workloads_keep_their_containers(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(MOST_WAITING)]
    bench = Bench(tmp_path / "run", *names)
    bench.run()
    assert len(bench.engine.containers) == len(names)


def test_what_a_killed_harness_was_running_is_not_run_again_by_the_next_container(bench: Bench) -> None:
    """The file that names the next trial is still there, as it is after SIGKILL."""
    first, second, _ = (job.planned for job in bench.jobs)
    for planned in (first, second):
        out = bench.folder.open_trial(planned)
        bench.folder.announce(planned, bench.jobs[0].spec)
        out.events.write_text("".join(good_events()[:2]), encoding="utf-8")
    assert (bench.folder.session(second.id) / NEXT).read_text(encoding="utf-8") == second.id
    assert [trial.status for trial in bench.read()] == [Status.INTERRUPTED] * 2
    bench.run()
    assert bench.engine.started == ["mlp.cpu.0", "mlp.cpu.1", "mlp.cpu.2"]
    assert [len(trial.windows) for trial in bench.read()] == [2, 2, 2]


def test_a_container_that_the_engine_does_not_remove_is_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(container: FakeContainer) -> None:
        raise EngineError("Cannot remove the container: device busy.", hint="")

    monkeypatch.setattr(FakeContainer, "remove", refuse)
    assert [trial.status for trial in bench.run()] == [Status.OK] * 3
    (line,) = [line for line in bench.progress.lines if "is left" in line]
    assert "device busy" in line


def test_a_containers_user_can_read_its_trial_whatever_the_umask(bench: Bench) -> None:
    planned = bench.jobs[0].planned
    before = os.umask(0o077)
    try:
        bench.folder.open_trial(planned)
        bench.folder.announce(planned, bench.jobs[0].spec)
    finally:
        os.umask(before)
    session = bench.folder.session(planned.id)
    for path in (session / NEXT, session / planned.id / "spec.json"):
        assert path.stat().st_mode & 0o777 == 0o644


def test_a_trials_folder_that_a_script_replaced_before_it_began_is_not_written_to(
    bench: Bench, tmp_path: Path
) -> None:
    """The script of an earlier trial in the same container can write to the session's folder."""
    planned = bench.jobs[1].planned
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    bench.folder.open_trial(planned)
    own = bench.folder.session(planned.id) / planned.id
    own.rmdir()
    own.symlink_to(elsewhere)
    bench.folder.announce(planned, bench.jobs[1].spec)
    assert (list(elsewhere.iterdir()), elsewhere.stat().st_mode & 0o777) == ([], 0o700)
    # Other users of the host can neither remove nor replace its files, and write nothing once the container is gone.
    assert (own.is_symlink(), own.stat().st_mode & 0o7777) == (False, 0o1777)
    bench.folder.settle("mlp.cpu")
    assert bench.folder.trial(planned.id).out.lstat().st_mode & 0o7777 == 0o755
    assert (bench.folder.trial(planned.id).out / "spec.json").is_file()


def test_a_script_cannot_put_its_own_folder_in_place_of_another_scripts_trial(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "run", "mlp", "other")
    first, other = (
        next(job for job in bench.jobs if job.planned.workload == name) for name in ("mlp", "other")
    )
    for job in (first, other):
        bench.folder.open_trial(job.planned).events.write_text("".join(good_events()[:2]), encoding="utf-8")
    forged = bench.folder.session(first.planned.id) / other.planned.id
    write_files(forged, {"events.jsonl": "forged"})
    bench.folder.settle("mlp.cpu")
    assert bench.folder.trial(other.planned.id).events.read_text(encoding="utf-8") != "forged"


@pytest.mark.parametrize("linked", ["trials", "containers", "containers/mlp.cpu"])
def test_no_file_is_removed_behind_a_link_in_a_run_folder_of_others(
    bench: Bench, tmp_path: Path, linked: str
) -> None:
    planned = bench.jobs[0].planned
    elsewhere = tmp_path / "elsewhere"
    names = (planned.id, f"mlp.cpu/{planned.id}")
    write_files(elsewhere, {f"{name}/own.txt": "own" for name in names})
    link = bench.folder.path / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    for action in (lambda: bench.folder.open_trial(planned), lambda: bench.folder.settle("mlp.cpu")):
        with pytest.raises(StoreError, match=f"{linked} is a link"):
            action()
    assert all((elsewhere / name / "own.txt").exists() for name in names)


def test_folders_are_moved_to_their_trials_when_the_container_is_gone(bench: Bench) -> None:
    bench.engine = FakeEngine(Script(), Script(raises={1: KeyboardInterrupt()}))
    with pytest.raises(Interrupted):
        bench.run()
    assert not (bench.folder.path / "containers").exists()
    for number in range(2):
        out = bench.folder.trial(f"mlp.cpu.{number}").out
        assert out.is_dir() and not out.is_symlink()
        assert json.loads((out / "spec.json").read_text(encoding="utf-8"))["variants"] == [BASELINE]


@pytest.mark.parametrize("ends", ["kill", "remove"])
def test_an_interrupt_while_containers_are_removed_leaves_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    end = getattr(FakeContainer, ends)

    def interrupted(container: FakeContainer) -> None:
        signal.raise_signal(signal.SIGINT)
        end(container)

    monkeypatch.setattr(FakeContainer, ends, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted):
            bench.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert bench.engine.left_behind == []
    assert not (bench.folder.path / "containers").exists()


def open_both(bench: Bench) -> None:
    """Open two trials of one container; each writes a few windows and does not end."""
    for job in bench.jobs[:2]:
        folder = bench.folder.open_trial(job.planned)
        folder.events.write_text("".join(good_events()[:2]), encoding="utf-8")


def test_interrupted_trials_are_read_through_the_link_and_after_it(bench: Bench, tmp_path: Path) -> None:
    open_both(bench)
    before = bench.read()
    assert [trial.status for trial in before] == [Status.INTERRUPTED] * 2
    assert [len(trial.windows) for trial in before] == [2, 2]
    shutil.copytree(bench.folder.path, tmp_path / "copy", symlinks=True)
    assert [len(trial.windows) for trial in read_run(tmp_path / "copy").trials] == [2, 2]
    for _ in range(2):
        bench.folder.settle("mlp.cpu")
        after = bench.read()
        assert [len(trial.windows) for trial in after] == [2, 2]
        assert [trial.message for trial in after] == [trial.message for trial in before]
    assert not (bench.folder.path / "containers").exists()


def test_a_folder_that_a_script_replaced_by_a_link_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "events.jsonl").write_text("".join(good_events()), encoding="utf-8")
    open_both(bench)
    own = bench.folder.session("mlp.cpu.1") / "mlp.cpu.1"
    shutil.rmtree(own)
    own.symlink_to(secret)
    bench.folder.settle("mlp.cpu")
    assert (secret / "events.jsonl").exists()
    first, second = bench.read()
    assert len(first.windows) == 2
    assert not second.windows
