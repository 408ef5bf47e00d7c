"""A run folder: written once, piece by piece, and read back the same."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from harness.errors import StoreError
from harness.model.run import Gap, PlannedTrial, Run, Series, Status, Stop, Trial
from harness.run.store import RunFolder, TrialFolder, read_run, write_whole
from tests.builders import (
    bare_run,
    cpu_run,
    empty_run,
    failed_run,
    four_gpu_run,
    gpu_run,
    interrupted_run,
)
from tests.fakes import good_events, line, start_line, window_line
from tests.folders import write_run
from workloads.protocol import Spec

RUN = cpu_run(trials=2)
SPEC = Spec(workload="mlp", variants=("baseline",))


def record(planned: PlannedTrial, status: Status = Status.OK, message: str = "") -> Trial:
    return Trial(
        id=planned.id, workload=planned.workload, device=planned.device, index=planned.index, status=status,
        exit_code=0, message=message, started_ns=1, ended_ns=5,
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


def test_a_run_reads_back_as_it_wbaseline(folder: RunFolder) -> None:
    for planned in RUN.planned:
        write_trial(folder, planned)
    stops = (Stop(workload="cifar100-mlp", device="cpu", trials=2, reason="time budget spent"),)
    folder.close(stops)
    run = read_run(folder.path)
    assert run.manifest == RUN.manifest
    assert run.workloads == RUN.workloads
    assert run.planned == RUN.planned
    assert run.stops == stops
    assert [trial.id for trial in run.trials] == [trial.id for trial in RUN.planned]
    first = run.trials[0]
    assert (first.status, first.exit_code, first.message) == (Status.OK, 0, "")
    assert first.gaps == record(RUN.planned[0]).gaps
    assert first.sampling == {"ticks": 4.0}
    assert first.facts == {"tensorflow": "2.21.0"}
    assert len(first.windows) == 2
    np.testing.assert_array_equal(first.telemetry[0].columns["cpu_util_pct"], [50.0, np.nan])
    assert folder.trial(first.id).log.read_text(encoding="utf-8") == "last words\n"


def test_a_manifest_with_gpus_reads_back_whole(tmp_path: Path) -> None:
    run = gpu_run(trials=1)
    gpu = dataclasses.replace(run.manifest.gpus[0], memory_bytes=None, power_limit_w=None, mig_enabled=None)
    manifest = dataclasses.replace(run.manifest, gpus=(gpu,))
    RunFolder(tmp_path / "one").create(dataclasses.replace(run, manifest=manifest))
    assert read_run(tmp_path / "one").manifest == manifest


def test_the_container_finds_its_spec(folder: RunFolder) -> None:
    trial = folder.open_trial(RUN.planned[0], SPEC)
    spec = json.loads((trial.out / "spec.json").read_text(encoding="utf-8"))
    assert spec == json.loads(json.dumps(dataclasses.asdict(SPEC)))


def test_what_is_not_closed_was_cut_off(folder: RunFolder) -> None:
    write_trial(folder, RUN.planned[0])
    trial = folder.open_trial(RUN.planned[1], SPEC)
    trial.events.write_text("".join(good_events()[:-1]) + '{"kind": "en', encoding="utf-8")
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\n7,50.0\n9,60.", encoding="utf-8")
    run = read_run(folder.path)
    assert [item.status for item in run.trials] == [Status.OK, Status.INTERRUPTED]
    cut = run.trials[1]
    assert len(cut.windows) == 2
    assert cut.telemetry[0].t_ns.tolist() == [7], "a row that was cut short is left out"
    assert (cut.started_ns, cut.ended_ns) == (7, max(window.end_ns for window in cut.windows))
    assert run.stops == ()


def test_only_trials_that_went_well_are_finished(folder: RunFolder) -> None:
    assert folder.finished() == frozenset()
    write_trial(folder, RUN.planned[0])
    write_trial(folder, RUN.planned[1], Status.FAILED)
    assert folder.finished() == {RUN.planned[0].id}
    assert [trial.status for trial in folder.ended().values()] == [Status.OK, Status.FAILED]


def test_opening_a_trial_again_begins_afresh(folder: RunFolder) -> None:
    write_trial(folder, RUN.planned[0], Status.FAILED)
    trial = folder.open_trial(RUN.planned[0], SPEC)
    assert not trial.events.exists()
    assert not trial.record.exists()
    assert list(trial.telemetry.iterdir()) == []


def test_a_folder_that_exists_is_not_written_over(folder: RunFolder) -> None:
    with pytest.raises(StoreError, match="exists already") as caught:
        folder.create(RUN)
    assert "--out" in caught.value.hint


def test_derived_files_are_whole_or_not_there(folder: RunFolder) -> None:
    path = write_whole(folder.path / "report.html", "<p>one</p>")
    write_whole(folder.path / "report.html", "<p>two</p>")
    assert path.read_text(encoding="utf-8") == "<p>two</p>"
    assert list(folder.path.glob("*.partial")) == []


def test_a_full_disk_is_said_so(folder: RunFolder) -> None:
    (folder.path / "report.html.partial").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="The disk is full") as caught:
        write_whole(folder.path / "report.html", "<p>" * 100)
    assert "finished trials are kept" in caught.value.hint


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(StoreError, match="Not a directory"):
        RunFolder(tmp_path / "runs" / "one").create(RUN)


def test_a_folder_that_may_not_be_written() -> None:
    """Nobody makes folders in /sys, not even root."""
    with pytest.raises(StoreError, match="Cannot write /sys/tfbench"):
        RunFolder(Path("/sys/tfbench")).create(RUN)


class TestReadingWhatIsNoRun:
    def test_no_folder_and_an_empty_one(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none", tmp_path):
            with pytest.raises(StoreError, match="is not a run") as caught:
                read_run(path)
            assert "tfbench bench" in caught.value.hint

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
    def test_a_manifest_that_is_no_object(self, folder: RunFolder, text: str) -> None:
        (folder.path / "manifest.json").write_text(text, encoding="utf-8")
        with pytest.raises(StoreError, match="is not a run"):
            read_run(folder.path)

    @pytest.mark.parametrize("version", [None, 0, 1, "2"])
    def test_another_schema_version(self, folder: RunFolder, version: object) -> None:
        self._change(folder, schema=version)
        with pytest.raises(StoreError, match="schema version"):
            read_run(folder.path)

    def test_a_field_of_the_wrong_type(self, folder: RunFolder) -> None:
        self._change(folder, engine=7)
        with pytest.raises(StoreError, match="not a complete run"):
            read_run(folder.path)

    def test_a_plan_without_its_parts(self, folder: RunFolder) -> None:
        (folder.path / "plan.json").write_text("{}", encoding="utf-8")
        with pytest.raises(StoreError, match="not a complete run"):
            read_run(folder.path)

    def _change(self, folder: RunFolder, **fields: object) -> None:
        path = folder.path / "manifest.json"
        raw = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(raw | fields), encoding="utf-8")


def damage_record(trial: TrialFolder) -> None:
    trial.record.write_text('{"status": "ok", "exit_', encoding="utf-8")


def damage_telemetry(trial: TrialFolder) -> None:
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\nx,y\n", encoding="utf-8")


def replace_record_by_pipe(trial: TrialFolder) -> None:
    trial.record.unlink()
    os.mkfifo(trial.record)


def replace_record_by_loop(trial: TrialFolder) -> None:
    trial.record.unlink()
    trial.record.symlink_to(trial.record)


def replace_record_by_folder(trial: TrialFolder) -> None:
    trial.record.unlink()
    trial.record.mkdir()


def nest_record(trial: TrialFolder) -> None:
    trial.record.write_text('{"gaps":' + "[" * 90_000 + "]" * 90_000 + "}", encoding="utf-8")


def swap_record(trial: TrialFolder) -> None:
    trial.record.write_text(trial.record.read_text(encoding="utf-8").replace(trial.path.name, "x"), "utf-8")


def cut_events(trial: TrialFolder) -> None:
    os.truncate(trial.events, trial.events.stat().st_size // 2)


def forge_events(trial: TrialFolder) -> None:
    trial.events.write_text(start_line() + window_line(1e14) + line("end"), encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        damage_record,
        damage_telemetry,
        replace_record_by_pipe,
        replace_record_by_loop,
        replace_record_by_folder,
        nest_record,
        swap_record,
        cut_events,
        forge_events,
    ],
)
def test_a_damaged_trial_costs_the_others_nothing_and_is_run_again(
    folder: RunFolder, damage: Callable[[TrialFolder], None]
) -> None:
    for planned in RUN.planned:
        write_trial(folder, planned)
    damage(folder.trial(RUN.planned[0].id))
    first, second = read_run(folder.path).trials
    assert (first.status, second.status) == (Status.BAD_EVENTS, Status.OK)
    assert "damaged" in first.message
    assert folder.finished() == {second.id}
    again = folder.open_trial(RUN.planned[0], SPEC)
    assert not os.path.lexists(again.record)


@pytest.mark.parametrize("content", ["", "{", '{"stops": 7}', '{"stops": [{}]}'])
def test_damaged_stops_cost_no_trial(folder: RunFolder, content: str) -> None:
    for planned in RUN.planned:
        write_trial(folder, planned)
    (folder.path / "stops.json").write_text(content, encoding="utf-8")
    assert read_run(folder.path).stops == ()
    assert len(folder.finished()) == 2


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
def test_a_pipe_instead_of_a_file_is_no_run(folder: RunFolder, name: str) -> None:
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    with pytest.raises(StoreError):
        read_run(folder.path)


def test_a_run_can_be_moved(folder: RunFolder, tmp_path: Path) -> None:
    write_trial(folder, RUN.planned[0])
    moved = tmp_path / "elsewhere"
    shutil.move(folder.path, moved)
    assert read_run(moved).trials[0].status is Status.OK


@pytest.mark.parametrize(
    "build", [cpu_run, gpu_run, bare_run, empty_run, failed_run, interrupted_run, four_gpu_run]
)
def test_every_kind_of_run_survives_the_disk(build: Callable[[], Run], tmp_path: Path) -> None:
    run = build()
    back = read_run(write_run(tmp_path / "run", run).path)
    assert back.manifest == run.manifest
    assert (back.workloads, back.planned, back.stops) == (run.workloads, run.planned, run.stops)
    assert len(back.trials) == len(run.trials)
    for then, now in zip(run.trials, back.trials, strict=True):
        assert plain(now) == plain(then)


def plain(value: object) -> object:
    """Return a value that compares with ==; of a trial that was cut off only what its files can tell."""
    if isinstance(value, np.ndarray):
        return [None if np.isnan(item) else item for item in value.tolist()]
    if isinstance(value, Trial) and value.status is Status.INTERRUPTED:
        return plain((value.id, value.variants, value.phases, value.windows, value.steps, value.telemetry))
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], Series):
        return {(item.source, item.device): plain(item) for item in value}  # on disk they have no order
    return [plain(item) for item in value] if isinstance(value, tuple) else value
