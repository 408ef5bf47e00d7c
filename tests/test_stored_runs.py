import base64
import json
import lzma
import os
import resource
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.analysis import analyse
from harness.errors import StoreError
from harness.model.run import PlannedTrial, Status, TelemetryGap, Trial
from harness.run.downsampling import count_values, downsample_run
from harness.run.recording import open_recording, open_run, pack, pack_for_page, unpack
from harness.run.store import RunFolder, TrialFolder, newest_run, read_run, session_of, write_atomic
from harness.untrusted import check_message_pack
from reports.page import render_html
from tests import builders
from tests.builders import bare_run, cpu_run, empty_run, failed_run, four_gpu_run, interrupted_run
from tests.errors import user_error
from tests.fakes import good_events, line, start_line, window_line
from tests.folders import comparable, write_run
from tests.report_pages import RUNS, javascript
from tests.special_runs import sweep_run
from workloads.protocol import Spec

RUN = cpu_run(trials=2)
SPEC = Spec(scripts={})


def trial_record(planned: PlannedTrial, status: Status = Status.OK, message: str = "") -> Trial:
    return replace(
        planned.trial(status, message), exit_code=0, started_ns=1, ended_ns=5,
        gaps=(TelemetryGap(source="nvml", device="*", metric="*", start_ns=1, end_ns=5, reason="no driver"),),
        sampling={"ticks": 4.0},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "one")
    made.create(RUN)
    return made


def write_trial(folder: RunFolder, planned: PlannedTrial, status: Status = Status.OK) -> None:
    trial = folder.open_trial(planned)
    trial.events.write_text("".join(good_events()), encoding="utf-8")
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\n1,50.0\n2,\n", encoding="utf-8")
    folder.close_trial(trial_record(planned, status), "last words\n")


def test_trial_without_record_is_interrupted(folder):
    write_trial(folder, RUN.planned[0])
    trial = folder.open_trial(RUN.planned[1])
    trial.events.write_text("".join(good_events()[:-1]) + '{"kind": "en', encoding="utf-8")
    (trial.telemetry / "host-host.csv").write_text("t_ns,cpu_util_pct\n7,50.0\n9,60.", encoding="utf-8")
    run = read_run(folder.path)
    assert [item.status for item in run.trials] == [Status.OK, Status.INTERRUPTED]
    cut = run.trials[1]
    assert len(cut.windows) == 2
    assert cut.telemetry[0].t_ns.tolist() == [7], "an incomplete row is dropped"
    assert (cut.started_ns, cut.ended_ns) == (7, max(window.end_ns for window in cut.windows))
    assert not run.ended


def test_what_was_measured_is_kept_until_its_repetition_is_complete(folder):
    planned = RUN.planned[0]
    first = folder.open_trial(planned)
    first.events.write_text("".join(good_events()[:-1]), encoding="utf-8")
    folder.settle(session_of(planned.id))
    measured = read_run(folder.path).trials[0]
    assert measured.status is Status.INTERRUPTED and len(measured.windows) == 2
    for status, told in (
        (Status.INTERRUPTED, ""),
        (Status.FAILED, " Repeated, it measured less: No memory."),
    ):
        again = folder.open_trial(planned)
        again.events.write_text(start_line(), encoding="utf-8")
        assert read_run(folder.path).trials[0].windows == measured.windows, "also while nothing has ended"
        folder.close_trial(trial_record(planned, status, "No memory."), "log")
        folder.settle(session_of(planned.id))
        (read,) = read_run(folder.path).trials
        assert read.windows == measured.windows and read.status is Status.INTERRUPTED
        assert read.message == f"{measured.message}{told}"
    write_trial(folder, planned)
    assert read_run(folder.path).trials[0].status is Status.OK
    assert not folder.trial(planned.id).earlier.path.exists()


def test_a_folder_that_was_moved_is_not_made_again(folder):
    write_trial(folder, RUN.planned[0])
    folder.open_trial(RUN.planned[1])
    moved = folder.path.rename(folder.path.with_name("moved"))
    for action in (
        lambda: folder.open_trial(RUN.planned[0]),
        lambda: folder.close_trial(trial_record(RUN.planned[1], Status.FAILED), ""),
    ):
        with pytest.raises(StoreError) as raised:
            action()
        assert "--resume" in raised.value.hint
        assert not folder.path.exists()
    assert [trial.status for trial in read_run(moved).trials] == [Status.OK, Status.INTERRUPTED]


def test_a_lost_file_of_a_folder_is_not_taken_for_a_lost_folder(folder):
    write_trial(folder, RUN.planned[0])
    (folder.path / "manifest.json").unlink()
    with pytest.raises(StoreError) as raised:
        folder.open_trial(RUN.planned[1])
    assert "manifest.json" in raised.value.message and str(folder.path / "trials") in raised.value.hint
    assert folder.trial(RUN.planned[0].id).record.exists()


def test_a_sweep_over_none_can_be_read(tmp_path):
    run = sweep_run({"clipnorm": (None, 1.0)}, trials=1)
    read = read_run(write_run(tmp_path / "run", run).path)
    assert [trial.point for trial in read.planned] == [(("clipnorm", None),), (("clipnorm", 1.0),)]
    (sweep,) = analyse(read).sweeps
    assert len([each for each in sweep.points if each.throughput]) == 2


def test_a_lost_trial_is_missed(tmp_path):
    run = replace(cpu_run(trials=2), ended=True)
    folder = write_run(tmp_path / "run", run)
    assert not read_run(folder.path).unfinished
    for trial in reversed(run.planned):  # also one that need not have run
        shutil.copytree(folder.path, tmp_path / trial.id)
        shutil.rmtree(RunFolder(tmp_path / trial.id).trial(trial.id).path)
        assert read_run(tmp_path / trial.id).unfinished
        assert RunFolder(tmp_path / trial.id).trial(trial.id).path.exists() is False


def test_write_atomic_keeps_the_old_file_on_error(tmp_path):
    path = tmp_path / "report.html"
    for text in ("<p>one</p>", "<p>two</p>"):
        assert write_atomic(path, text).read_text(encoding="utf-8") == text
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with user_error(StoreError, "File too large"):
            write_atomic(path, "<p>" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text(encoding="utf-8") == "<p>two</p>"
    assert list(tmp_path.iterdir()) == [path]
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match=r"report\.html is a folder"):
        write_atomic(path, "<p>")


def test_links_in_a_folder_of_others_lead_to_no_file_of_the_user(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("own", encoding="utf-8")
    for name in ("report.html", "report.html.partial"):
        (tmp_path / name).symlink_to(own)
    written = write_atomic(tmp_path / "report.html", "<p>")
    assert (own.read_text(encoding="utf-8"), written.is_symlink()) == ("own", False)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("there", "exists already"),
        ("file/one", "is not in a folder"),
        ("/sys/tfbench", "Cannot write /sys/tfbench"),  # not writable, even for root
    ],
)
def test_run_folder_that_cannot_be_created(tmp_path, path, message):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    with user_error(StoreError, message, hint="TFBENCH_CACHE"):
        RunFolder(tmp_path / path).create(RUN)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", None, "is not a run"),
        *(("manifest.json", text, "is not a run") for text in ("{", "[]")),
        *(("manifest.json", {"schema": version}, "schema version") for version in (None, "2")),
        ("manifest.json", {"engine": 7}, "not a complete run"),
        ("plan.json", None, "is not a run"),
        ("plan.json", "{}", "not a complete run"),
        ("plan.json", {"workloads": []}, "belongs to no workload"),
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
    with user_error(StoreError, message):
        read_run(folder.path)


DAMAGE: Mapping[str, Callable[[TrialFolder], object]] = {
    "foreign": lambda trial: trial.record.write_text(trial.record.read_text().replace(trial.path.name, "x")),
    "of another device": lambda trial: trial.record.write_text(
        trial.record.read_text().replace('"cpu"', '"gpu7"')
    ),
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
    again = folder.open_trial(RUN.planned[0])
    assert not os.path.lexists(again.record)
    assert not again.events.exists()
    assert list(again.telemetry.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["t_ns,cpu_util_pct\nx,y\n", "t_ns,,load1\n1,2,3\n", "t_ns,load1\n9,1e999\n"]
)
def test_damaged_telemetry_is_a_gap_and_its_trial_stays(folder: RunFolder, text: str) -> None:
    (planned, *_) = RUN.planned
    write_trial(folder, planned)
    intact = read_run(folder.path).trials[0]
    (folder.trial(planned.id).telemetry / "host-host.csv").write_text(text)
    trial = read_run(folder.path).trials[0]
    assert trial.status is Status.OK and trial.windows == intact.windows
    *earlier, gap = trial.gaps
    assert tuple(earlier) == intact.gaps
    assert (gap.source, gap.device, gap.start_ns) == ("host", "host", trial.started_ns)
    assert "host-host.csv is damaged" in gap.reason
    assert "host" not in {series.source for series in trial.telemetry}


@pytest.mark.parametrize("build", [bare_run, empty_run, failed_run, interrupted_run, four_gpu_run])
def test_runs_round_trip_through_the_store(build, tmp_path):
    run = replace(build(), ended=True)
    path = write_run(tmp_path / "run", run).path
    for name in ("manifest.json", "plan.json"):
        (tmp_path / f"s-{name}").mkdir()
        shutil.copy(path / name, tmp_path / f"s-{name}")
    assert newest_run(tmp_path) == path, "folders with half a run do not hide the others"
    back = read_run(path)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optimizations", "interrupted", "empty"])
def test_a_run_and_its_analysis_survive_a_round_trip(name: str) -> None:
    analysis = analyse(RUNS[name]())
    run, again = unpack(pack(analysis, whole=False))
    assert comparable(again) == comparable(analysis)
    assert again.run is run


@pytest.mark.slow
def test_a_long_run_is_downsampled_and_keeps_its_analysis(tmp_path: Path) -> None:
    # As read from a recording, with the types of the model.
    run, _ = unpack(pack(analyse(builders.long_run(seconds=1200, gpus=4)), whole=True))
    analysis, page = analyse(run), tmp_path / "report.html"
    text, shown = pack_for_page(analysis, whole=True)
    page.write_text(render_html(shown, record=text, code=javascript()), encoding="utf-8")
    short, kept = open_recording(page)
    assert count_values(short) < count_values(run) / 2
    assert comparable(kept) == comparable(replace(analysis, run=short))
    assert short.trials[0].windows == run.trials[0].windows
    text, shown = pack_for_page(kept, whole=False)
    again = render_html(shown, record=text, code=javascript())
    assert again == page.read_text(encoding="utf-8"), "a report made from a report is identical"


@pytest.mark.slow
def test_downsampling_keeps_peaks_gaps_and_the_spread_of_steps() -> None:
    run = builders.long_run(seconds=600, gpus=1)
    short = downsample_run(run, 20_000)
    assert count_values(short) <= 20_000
    for before, after in zip(run.trials[0].telemetry, short.trials[0].telemetry, strict=True):
        assert (np.diff(after.t_ns) >= 0).all()
        for name, values in before.columns.items():
            if np.isfinite(values).any():
                assert np.nanmax(after.columns[name]) == np.nanmax(values)
                assert np.nanmin(after.columns[name]) == np.nanmin(values)
    for before, after in zip(run.trials[0].steps, short.trials[0].steps, strict=True):
        assert (after.step_ns.min(), after.step_ns.max()) == (before.step_ns.min(), before.step_ns.max())
        assert np.median(after.step_ns) == pytest.approx(np.median(before.step_ns), rel=0.1)
    assert downsample_run(run, count_values(run)) is run


def page_with(content: str) -> str:
    return f'<!DOCTYPE html><script type="text/plain" id="tfbench-run">{content}</script>'


def packed_bytes(content: bytes) -> str:
    return base64.b64encode(lzma.compress(content)).decode()


@cache
def record() -> str:
    return pack(analyse(builders.cpu_run(trials=1)), whole=True)


@cache
def content() -> bytes:
    return lzma.decompress(base64.b64decode(record()))


def test_a_page_that_repeats_its_mark_is_refused_at_once(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_bytes(b"<script " + b'id="tfbench-run" ' * 60_000)
    with pytest.raises(StoreError, match="not a tfbench report"):
        open_run(page)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!DOCTYPE html><p>someone's page", "not a tfbench report"),
        (page_with("A" * 64), "cannot be decompressed"),
        (page_with(record()[: len(record()) // 8 * 4]), "truncated"),
        (page_with(packed_bytes(b"\x91" * 100_000)), "damaged"),
        (
            page_with(packed_bytes(content().replace(b"\xa6schema\x02", b"\xa6schema\x63", 1))),
            "schema version 99",
        ),
        (page_with(packed_bytes(content().replace(b"\xa3<i8", b"\xa3<O8", 1))), "damaged"),
    ],
    ids=range(6),
)
def test_other_and_damaged_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StoreError) as error:
        open_run(path)
    assert message in error.value.message
    assert str(path) in error.value.message
    assert error.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"\xdd\x7f\xff\xff\xff" + b"\x80" * 4_100_000, "too many values"),  # empty mappings of 64 bytes each
        (b"\xdd\x7f\xff\xff\xff", "truncated"),
        (b"\xc1", "unknown type"),
        (b"\x01", "not a run"),
    ],
    ids=["many values", "length without items", "unknown type", "number"],
)
def test_small_page_does_not_unfold_to_millions_of_objects(document: bytes, message: str) -> None:
    with pytest.raises(StoreError, match=f"damaged: .*{message}"):
        unpack(packed_bytes(document))
    for limit, problem in ((1 << 19, "too large"), (1 << 21, "damaged")):
        with pytest.raises(StoreError, match=problem):
            unpack(packed_bytes(bytes(1 << 20)), max_bytes=limit)
    longer = base64.b64encode(lzma.compress(document) + b"more").decode()
    with pytest.raises(StoreError, match="truncated or too large"):
        unpack(longer)


@pytest.mark.slow
def test_check_accepts_every_type_that_is_written() -> None:
    numbers = [sign * (1 << power) + add for power in range(63) for sign in (1, -1) for add in (0, -1)]
    texts = ["x" * length for length in (0, 31, 32, 255, 256, 65_535, 65_536)]
    lists = [[0] * length for length in (0, 15, 16, 65_535, 65_536)]
    maps = [{str(key): key for key in range(length)} for length in (0, 15, 16, 65_536)]
    document = [numbers, texts, [text.encode() for text in texts], lists, maps, None, True, False, 1.5]
    content = msgspec.msgpack.encode(document)
    check_message_pack(content)
    with pytest.raises(ValueError, match="truncated"):
        check_message_pack(content[:-10])


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["shorter", "huge", "negative times"])
def test_telemetry_columns_have_one_length_and_a_plausible_range(damage: str) -> None:
    document = msgspec.msgpack.decode(content())
    series = document["analysis"]["run"]["trials"][0]["telemetry"][0]
    times = series["t_ns"][1]
    values = {"shorter": bytes(8), "huge": np.full(len(times) // 8, 1.7e308).tobytes()}
    if damage in values:
        series["columns"] = {name: ["<f8", values[damage]] for name in series["columns"]}
    else:
        series["t_ns"] = ["<i8", b"\xff" * len(times)]
    with pytest.raises(StoreError, match="damaged"):
        unpack(packed_bytes(msgspec.msgpack.encode(document)))
