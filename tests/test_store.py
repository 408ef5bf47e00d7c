import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.model.run import Gap, PlannedTrial, Status, Trial
from harness.run.store import RunFolder, TrialFolder, newest_run, read_run, write_atomic
from tests.builders import bare_run, cpu_run, empty_run, failed_run, four_gpu_run, gpu_run, interrupted_run
from tests.fakes import good_events, line, start_line, window_line
from tests.folders import comparable, write_run
from workloads.protocol import Spec

RUN = cpu_run(trials=2)
SPEC = Spec(scripts={})


def record(planned: PlannedTrial, status: Status = Status.OK, message: str = "") -> Trial:
    return replace(
        planned.trial(status, message), exit_code=0, started_ns=1, ended_ns=5,
        gaps=(Gap(source="nvml", device="*", metric="*", start_ns=1, end_ns=5, reason="no driver"),),
        sampling={"ticks": 4.0},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "one")
    made.create(RUN)
    return made


def write_trial(folder: RunFolder, planned: PlannedTrial, status: Status = Status.OK) -> None:
    trial = folder.open_trial(planned, SPEC)
    trial.events.write_text("".join(good_events()), encoding="utf-8")
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\n1,50.0\n2,\n", encoding="utf-8")
    folder.close_trial(record(planned, status), "last words\n")


def test_trial_without_record_is_interrupted(folder):
    write_trial(folder, RUN.planned[0])
    trial = folder.open_trial(RUN.planned[1], SPEC)
    trial.events.write_text("".join(good_events()[:-1]) + '{"kind": "en', encoding="utf-8")
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\n7,50.0\n9,60.", encoding="utf-8")
    run = read_run(folder.path)
    assert [item.status for item in run.trials] == [Status.OK, Status.INTERRUPTED]
    cut = run.trials[1]
    assert len(cut.windows) == 2
    assert cut.telemetry[0].t_ns.tolist() == [7], "an incomplete row is dropped"
    assert (cut.started_ns, cut.ended_ns) == (7, max(window.end_ns for window in cut.windows))
    assert not run.ended


def test_write_atomic_keeps_the_old_file_on_error(tmp_path):
    path = tmp_path / "report.html"
    for text in ("<p>one</p>", "<p>two</p>"):
        assert write_atomic(path, text).read_text(encoding="utf-8") == text
    (tmp_path / "report.html.partial").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="The disk is full") as caught:
        write_atomic(path, "<p>" * 100)
    assert "finished trials are kept" in caught.value.hint
    assert path.read_text(encoding="utf-8") == "<p>two</p>"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("there", "exists already"),
        ("file/one", "Not a directory"),
        ("/sys/tfbench", "Cannot write /sys/tfbench"),  # not writable, even for root
    ],
)
def test_run_folder_that_cannot_be_created(tmp_path, path, message):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=message) as caught:
        RunFolder(tmp_path / path).create(RUN)
    assert "--out" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", None, "is not a run"),
        *(("manifest.json", text, "is not a run") for text in ("", "{", "[]", "null", '"x"')),
        *(("manifest.json", {"schema": version}, "schema version") for version in (None, 0, 1, "2")),
        ("manifest.json", {"engine": 7}, "not a complete run"),
        ("plan.json", None, "is not a run"),
        ("plan.json", "{}", "not a complete run"),
    ],
)
def test_invalid_run_folder(folder, name, content, message):
    path = folder.path / name
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text(encoding="utf-8")) | content)
    path.unlink()
    if content is None:
        os.mkfifo(path)  # reading it must not block
    else:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=message) as caught:
        read_run(folder.path)
    assert caught.value.hint


def replace_record(trial: TrialFolder, by: Callable[[Path], object]) -> None:
    trial.record.unlink()
    by(trial.record)


DAMAGE: Mapping[str, Callable[[TrialFolder], object]] = {
    "cut record": lambda trial: trial.record.write_text('{"status": "ok", "exit_'),
    "nested record": lambda trial: trial.record.write_text('{"gaps":' + "[" * 90_000 + "]" * 90_000 + "}"),
    "foreign": lambda trial: trial.record.write_text(trial.record.read_text().replace(trial.path.name, "x")),
    "pipe": lambda trial: replace_record(trial, os.mkfifo),
    "link to itself": lambda trial: replace_record(trial, lambda path: path.symlink_to(path)),
    "folder": lambda trial: replace_record(trial, Path.mkdir),
    "telemetry": lambda trial: (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\nx,y\n"),
    "cut events": lambda trial: os.truncate(trial.events, trial.events.stat().st_size // 2),
    "forged events": lambda trial: trial.events.write_text(start_line() + window_line(1e14) + line("end")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_trial_does_not_affect_the_others(folder, damage):
    for planned in RUN.planned:
        write_trial(folder, planned)
    damage(folder.trial(RUN.planned[0].id))
    first, second = read_run(folder.path).trials
    assert (first.status, second.status) == (Status.BAD_EVENTS, Status.OK)
    assert "damaged" in first.message
    again = folder.open_trial(RUN.planned[0], SPEC)
    assert not os.path.lexists(again.record)
    assert not again.events.exists()
    assert list(again.telemetry.iterdir()) == []


@pytest.mark.parametrize("build", [gpu_run, bare_run, empty_run, failed_run, interrupted_run, four_gpu_run])
def test_runs_round_trip_through_the_store(build, tmp_path):
    run = replace(build(), ended=True)
    back = read_run(write_run(tmp_path / "run", run).path)
    assert back.manifest == run.manifest
    assert (back.workloads, back.planned, back.ended) == (run.workloads, run.planned, True)
    assert len(back.trials) == len(run.trials)
    for then, now in zip(run.trials, back.trials, strict=True):
        assert comparable(normalized(now)) == comparable(normalized(then))


def normalized(trial: Trial) -> Trial:
    """Sort telemetry, and drop what is not stored for interrupted trials."""
    trial = replace(trial, telemetry=sorted(trial.telemetry, key=lambda each: (each.source, each.device)))
    if trial.status is not Status.INTERRUPTED:
        return trial
    unknown = {"message": "", "started_ns": 0, "ended_ns": 0, "facts": {}, "sampling": {}}
    return replace(trial, metrics=(), warnings=(), gaps=(), **unknown)


def test_folder_with_half_a_run_does_not_hide_the_others(tmp_path):
    run = write_run(tmp_path / "1", RUN).path
    for name in ("manifest.json", "plan.json"):
        (tmp_path / f"2-{name}").mkdir()
        shutil.copy(run / name, tmp_path / f"2-{name}")
    assert newest_run(tmp_path) == run
