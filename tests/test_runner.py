import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.defaults import PROFILES, Profile
from harness.errors import BusyError, EngineError, Interrupted, StoreError
from harness.model.run import Phase, PlannedTrial, Point, Run, Status, Trial, VariantInfo, Window
from harness.options import Options
from harness.run.plan import plan_trials
from harness.run.runner import Runner
from harness.run.stopping import Stopping
from harness.run.store import RunFolder, read_run
from harness.telemetry import Source
from reports.messages import banners
from tests.builders import jobs, manifest, small_workload
from tests.errors import user_error
from tests.fakes import (
    FakeEngine,
    FakeSource,
    RecordingProgress,
    Script,
    error_line,
    good_events,
    line,
    start_line,
    window_line,
)
from tests.test_locks_and_caches import nest
from workloads.protocol import FIRST_STEP, SOAK
from workloads.variants import BASELINE, TUNED

WORKLOAD = small_workload()
THREE = replace(PROFILES["smoke"], trials=3, max_trials=3, target_interval=0.05, stall_s=30, limit_s=60)
SHORT_STALL = replace(THREE, stall_s=0.5)
# A fake container writes one piece per poll.
POLL_S = 0.002
MAX_FILES = 100


@dataclass
class Bench:
    folder: RunFolder
    engine: FakeEngine
    profile: Profile = THREE
    progress: RecordingProgress = field(default_factory=RecordingProgress)
    sources: list[FakeSource] = field(default_factory=list)
    points: Sequence[Point] = ((),)
    variant: str = BASELINE
    announced_end: Callable[[], str] = str
    changed: Callable[[PlannedTrial], frozenset[str]] = lambda planned: frozenset()

    @property
    def planned(self) -> tuple[PlannedTrial, ...]:
        variants = {WORKLOAD.name: (self.variant,)}
        return plan_trials([WORKLOAD], ("cpu",), self.profile, variants, {}, self.points)

    def run(self) -> tuple[Trial, ...]:
        runner = Runner(
            engine=self.engine, folder=self.folder, options=Options(rate_hz=100), profile=self.profile,
            sources=self._sources, progress=self.progress, poll_s=POLL_S, max_files=MAX_FILES,
            announced_end=self.announced_end, changed=self.changed,
        )  # fmt: skip
        return runner.run(jobs(self.planned, WORKLOAD, self.profile, memory_bytes=2 << 30))

    def read(self) -> Run:
        return read_run(self.folder.path)

    @property
    def statuses(self) -> list[Status]:
        return [trial.status for trial in self.read().trials]

    def sampled(self) -> bool:
        return self.sources[-1].reads > 3

    def _sources(self) -> Sequence[Source]:
        self.sources.append(FakeSource())
        return self.sources[-1:]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(folder=RunFolder(tmp_path / "run"), engine=FakeEngine())


def run_all(bench: Bench, *scripts: Script) -> tuple[Trial, ...]:
    bench.engine = FakeEngine(*scripts)
    bench.folder.create(Run(manifest=manifest(), workloads=(WORKLOAD,), planned=bench.planned, trials=()))
    return bench.run()


def test_a_trial_of_files_that_changed_during_the_run_fails(bench):
    files = {0: {"notes.txt"}, 1: {"net.py", "notes.txt"}, 2: {"/lib/net.py", "/lib/notes.txt"}}
    bench.changed = lambda planned: frozenset(files[planned.index])
    run_all(bench)
    assert bench.statuses == [Status.OK, Status.FAILED, Status.FAILED]
    messages = [trial.message for trial in bench.read().trials[1:]]
    assert messages[0].startswith("net.py changed during the run") and "--resume" in messages[0]
    assert messages[1].startswith("/lib/net.py changed during the run")


def test_successful_trials(bench):
    begun, *others = good_events()
    run_all(bench, Script(writes=(begun, line("variant", variant="\x1b[2J", params={}, changes=[]), *others)))
    assert bench.engine.started == ["mlp.cpu.0", "mlp.cpu.1", "mlp.cpu.2"]
    assert bench.engine.left_behind == []
    run = bench.read()
    assert [trial.status for trial in run.trials] == [Status.OK] * 3
    assert run.ended
    trial = run.trials[0]
    assert len(trial.windows) == 2
    assert trial.exit_code == 0
    assert 0 < trial.started_ns < trial.ended_ns
    folder = bench.folder.trial(trial.id)
    assert (
        json.loads((folder.out / "spec.json").read_text(encoding="utf-8"))["scripts"]["baseline"]["path"]
        == "/script/mlp.py"
    )
    assert (folder.path / "log.txt").read_text(encoding="utf-8") == "training ...\n"
    assert bench.progress.lines == [
        "  mlp on cpu: baseline 1,000/s",
        *["  mlp on cpu: baseline 1,000/s ±0%"] * 2,
    ]
    assert [task.label for task in bench.progress.tasks] == ["Trial 1 of 3", "Trial 2 of 3", "Trial 3 of 3"]
    notes = ["mlp on cpu", *(f"mlp on cpu: baseline{more}" for more in ("", ", window 1", ", window 2"))]
    for task in bench.progress.tasks:
        assert (task.total, task.done, task.notes) == (2, 2, notes), "unplanned variants are ignored"


def test_a_soak_advances_by_seconds(bench):
    bench.variant = SOAK
    begun, *_ = good_events()
    half = {"variant": SOAK, "steps": 1, "samples": 1, "wait_ns": -1}  # a second
    windows = (
        line("window", index=index, start_ns=index * 10**9 // 2, end_ns=(index + 1) * 10**9 // 2, **half)
        for index in range(4)
    )
    run_all(bench, Script(writes=(begun, *windows)))
    assert (bench.progress.tasks[0].total, bench.progress.tasks[0].done) == (2, 2)


def test_telemetry_is_sampled_while_the_container_runs(bench):
    run_all(bench, Script(may_exit=bench.sampled))
    assert all(source.stopped for source in bench.sources)
    for trial in bench.read().trials:
        (series,) = trial.telemetry
        assert len(series.t_ns) >= 3
        assert trial.started_ns <= series.t_ns[0] <= series.t_ns[-1] <= trial.ended_ns
        assert [gap.reason for gap in trial.gaps] == ["There is no disk."]
        assert trial.sampling["ticks"] >= 3


NOTICES = (
    "2026-11-26 16:20:33.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n"
    "I0000 00:00:1732637000.1 1 cuda_executor.cc:1] could not open file\n"
    "To enable the following instructions: AVX2, in other operations, rebuild TensorFlow.\n"
)


@pytest.mark.parametrize(
    ("script", "status", "expected"),
    [
        (Script(writes=(start_line(), error_line()), code=1), Status.FAILED, "raised ValueError: boom."),
        (Script(writes=(start_line(), window_line(100), "\x00garbage\n")), Status.BAD_EVENTS, "line 3"),
        (Script(writes=(start_line(),), code=137, out_of_memory=True), Status.OUT_OF_MEMORY, "2.0 GiB"),
        (
            Script(writes=(), code=1, log="x\nModuleNotFoundError: No module named 'numpy'\n"),
            Status.FAILED,
            "No module named 'numpy'. Build the image FROM one of ours",
        ),
        (
            Script(writes=(), code=1, log="Fatal Python error: bad seed\nPython runtime state: x\n"),
            Status.FAILED,
            "bad seed",
        ),
        (
            Script(writes=(start_line(),), code=1, log=f"OSError: bad descriptor\n{NOTICES}"),
            Status.FAILED,
            "It is: OSError: bad descriptor",
        ),
        (Script(writes=(start_line(),), code=-7), Status.FAILED, "/dev/shm"),
    ],
)
def test_failed_trial_does_not_affect_the_others(bench, script, status, expected):
    run_all(bench, Script(), script, Script())
    assert bench.statuses == [Status.OK, status, Status.OK]
    broken = bench.read().trials[1]
    assert expected in broken.message
    assert len(broken.windows) == "".join(script.writes).count('"window"'), "earlier windows are kept"
    (line,) = [line for line in bench.progress.lines if not line.startswith("  ")]
    assert line.startswith(f"mlp.cpu.1 {status.predicate}.")
    assert bench.engine.left_behind == []


class TestTimeouts:
    @pytest.mark.parametrize(
        ("profile", "writes", "expected"),
        [
            (SHORT_STALL, (start_line(),), "No event for 0.5 s; the trial was killed. Raise --stall"),
            (SHORT_STALL, ("garbage\n",) * 10_000, "No event for 0.5 s"),
            (replace(THREE, limit_s=0.5), (start_line(), *[line("warning", message="still here")] * 10_000),
             "Not finished after 0.5 s; the trial was killed. Measure less, e.g. with --variants"),
        ],
        ids=["silence", "garbage", "chatter"],
    )  # fmt: skip
    def test_hanging_trial_is_killed_and_the_others_run(self, bench, profile, writes, expected):
        bench.profile = profile
        records = run_all(bench, Script(writes=writes, code=None), Script())
        assert [record.status for record in records] == [Status.TIMEOUT, Status.OK, Status.OK]
        assert expected in records[0].message
        assert bench.engine.containers[0].killed
        assert bench.engine.left_behind == []

    def test_a_container_that_somebody_paused_was_not_silent_by_itself(self, bench):
        bench.profile = SHORT_STALL
        records = run_all(bench, Script(writes=(start_line(),), code=None, paused=True), Script())
        assert records[0].status is Status.TIMEOUT
        assert "paused" in records[0].message and "--stall" not in records[0].message

    def test_slow_trial_that_writes_events_is_not_killed(self, bench):
        bench.profile = SHORT_STALL
        chatter = (line("warning", message="still here"),) * round(1.5 * SHORT_STALL.stall_s / POLL_S)
        events = good_events()
        begun = time.monotonic()
        records = run_all(bench, Script(writes=(*events[:-1], *chatter, events[-1])), Script())
        assert time.monotonic() - begun > SHORT_STALL.stall_s
        assert records[0].status is Status.OK


class TestEarlyEnd:
    def test_engine_lost_during_a_trial(self, bench):
        lost = EngineError("The engine does not answer.", hint="Start it again.")
        with pytest.raises(EngineError, match="does not answer"):
            run_all(bench, Script(), Script(raises={1: lost}), Script())
        assert bench.statuses == [Status.OK, Status.ENGINE_LOST]
        cut = bench.read().trials[1]
        assert lost.message in cut.message and lost.hint in cut.message
        assert len(cut.windows) == 0
        assert len(cut.variants) == 1, "earlier events are kept"
        assert cut.telemetry
        assert all(source.stopped for source in bench.sources)

    @pytest.mark.parametrize("fails", ["start_error", "poll"])
    def test_error_of_an_engine_that_answers_costs_one_trial(self, bench, fails):
        slow = EngineError("could not kill: did not receive an exit event", hint="See its log.")
        script = (
            Script(start_error=slow) if fails == "start_error" else Script(raises={1: slow}, answers=True)
        )
        run_all(bench, script, Script())
        assert bench.statuses == [Status.FAILED, Status.OK, Status.OK]
        assert slow.message in bench.read().trials[0].message
        assert bench.engine.left_behind == []

    @pytest.mark.parametrize(
        ("script", "raised", "statuses"),
        [
            (Script(raises={1: KeyboardInterrupt()}), Interrupted, [Status.OK, Status.INTERRUPTED]),
            (Script(start_error=KeyboardInterrupt()), Interrupted, [Status.INTERRUPTED]),
            # A bug in the harness.
            (Script(raises={1: ZeroDivisionError()}), ZeroDivisionError, [Status.OK, Status.INTERRUPTED]),
        ],
    )
    def test_no_container_is_left_behind(self, bench, script, raised, statuses):
        with pytest.raises(raised) as caught:
            run_all(bench, *([Script()] * (len(statuses) - 1)), script, Script())
        assert bench.statuses == statuses
        assert bench.engine.left_behind == []
        assert not bench.read().ended
        if isinstance(caught.value, Interrupted):
            assert f"--resume {bench.folder.path}" in caught.value.hint


def test_an_interrupt_between_trials_says_how_to_continue(bench, monkeypatch):
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.progress, "line", interrupted)
    with pytest.raises(Interrupted) as caught:
        run_all(bench)
    assert f"--resume {bench.folder.path}" in caught.value.hint
    assert bench.statuses == [Status.OK]
    assert bench.engine.left_behind == []


def test_a_run_in_progress_differs_from_one_that_was_cut_short(bench):
    read: list[Run] = []
    bench.announced_end = lambda: read.append(bench.read()) or ""
    run_all(bench)
    read.append(bench.read())
    before, *_, during, after = ([*banners(run)][-1:] for run in read)
    assert "No trial has ended yet" in before[0] and "in progress" in before[0]
    (text,) = during
    assert "2 of 2" in text and "in progress" in text and "Cut short" not in text
    assert after == []
    assert {len(run.trials) for run in read} == {0, 1, 2, 3}
    assert {trial.status for run in read for trial in run.trials} == {Status.OK}


def test_a_run_has_one_process_at_a_time(bench):
    caught: list[BaseException] = []

    def second() -> str:
        if not caught:
            try:
                with RunFolder(bench.folder.path).lock():
                    pass
            except BusyError as error:
                caught.append(error)
        return ""

    bench.announced_end = second
    run_all(bench)
    assert len(caught) == 1
    with bench.folder.lock():  # until it ends
        assert bench.read().in_progress
    assert not bench.read().in_progress


def test_end_of_the_machine_closes_the_trial_and_can_be_resumed(bench):
    bench.announced_end = lambda: "terminate" if len(bench.engine.started) > 1 else ""
    with pytest.raises(Interrupted, match="ends this machine: terminate") as caught:
        run_all(bench, Script(), Script(code=None))
    assert f"--resume {bench.folder.path}" in caught.value.hint
    assert bench.statuses == [Status.OK, Status.INTERRUPTED]
    assert bench.engine.left_behind == []
    run = bench.read()
    assert run.unfinished and "terminate" in run.trials[1].message
    assert any("terminate" in banner for banner in banners(run))
    bench.announced_end, bench.engine = str, FakeEngine()
    bench.run()
    assert bench.statuses == [Status.OK] * 3


def many_files(out: Path) -> None:
    for number in range(MAX_FILES + 1):
        (out / str(number)).touch()


@pytest.mark.parametrize(
    ("fill", "limit", "code"),
    [
        (lambda out: nest(out, 1_500, "d"), "64 nested folders", None),
        (many_files, "100 files", 0),
    ],
    ids=["nested and hangs", "files"],
)
def test_trial_that_fills_its_folder_fails_and_can_be_repeated(bench, fill, limit, code):
    run_all(bench, Script(), Script(on_start=fill, code=code), Script())
    assert bench.statuses == [Status.OK, Status.FAILED, Status.OK]
    assert limit in bench.read().trials[1].message
    bench.engine = FakeEngine()
    bench.run()
    assert bench.statuses == [Status.OK] * 3


def test_trial_whose_folder_is_removed_does_not_wait_until_it_stalls(bench):
    run_all(bench, Script(), Script(on_start=shutil.rmtree, writes=(), code=None), Script())
    assert bench.statuses == [Status.OK, Status.FAILED, Status.OK]
    assert "--stall" not in bench.read().trials[1].message


def test_trial_whose_events_are_removed_does_not_wait_until_it_stalls(bench):
    def remove() -> bool:
        with suppress(FileNotFoundError):
            bench.engine.containers[0].out.joinpath("events.jsonl").unlink()
        return False

    run_all(bench, Script(writes=(start_line(), start_line()), may_exit=remove), Script(), Script())
    assert bench.statuses[0] is Status.FAILED
    assert "removed or moved the trial's events.jsonl" in bench.read().trials[0].message


def test_a_file_that_cannot_be_written_ends_the_run_but_keeps_finished_trials(bench):
    """A folder in its place stands for a full disk."""

    def fill(out: Path) -> None:
        (bench.folder.trial(out.name).path / "log.txt").mkdir()

    with user_error(StoreError, "log.txt is a folder"):
        run_all(bench, Script(), Script(on_start=fill))
    assert bench.statuses == [Status.OK, Status.INTERRUPTED]
    assert bench.engine.left_behind == []


def test_resume_runs_only_missing_and_failed_trials(bench):
    failing = Script(writes=(start_line(), error_line()), code=1)
    with pytest.raises(Interrupted):
        run_all(bench, Script(), failing, Script(raises={1: KeyboardInterrupt()}))
    bench.engine = FakeEngine()
    records = bench.run()
    assert bench.engine.started == [record.id for record in records] == ["mlp.cpu.1", "mlp.cpu.2"]
    assert bench.statuses == [Status.OK] * 3
    assert bench.run() == (), "a complete run has nothing to resume"


def test_resume_keeps_a_sweep_point_that_ran_out_of_memory(bench):
    bench.points = ((("BATCH_SIZE", 8),), (("BATCH_SIZE", 9),))
    too_large = Script(writes=(start_line(),), code=137, out_of_memory=True)
    with pytest.raises(Interrupted):
        run_all(bench, too_large, Script(raises={1: KeyboardInterrupt()}))
    bench.engine = FakeEngine()
    bench.run()
    assert bench.engine.started == ["mlp.cpu.p02.0", "mlp.cpu.p02.1", "mlp.cpu.p02.2"]


PROFILE = replace(PROFILES["quick"], trials=3, max_trials=7, target_interval=0.05, budget_s=100.0)


def planned(index: int, device: str = "cpu", variants: tuple[str, ...] = (BASELINE, TUNED)) -> PlannedTrial:
    return PlannedTrial(id=f"a.{device}.{index}", workload="a", device=device, index=index, variants=variants)


def trial(samples_per_s: float, seconds=1.0, variant=BASELINE, status=Status.OK) -> Trial:
    window = Window(
        variant=variant, index=0, start_ns=0, end_ns=2 * 10**9, steps=1, samples=int(2 * samples_per_s), wait_ns=-1
    )  # fmt: skip
    return Trial(
        id="a", workload="a", device="cpu", index=0, status=status, exit_code=0, message="", started_ns=0,
        ended_ns=int(seconds * 1e9), windows=(window,),
    )  # fmt: skip


def run_trials(stopping: Stopping, values: list[float], seconds: float = 1.0) -> int:
    pending = [planned(index) for index in range(len(values))]
    for index, value in enumerate(values):
        if stopping.next(pending[index:]) is None:
            return index
        stopping.add(pending[index], trial(value, seconds))
    return len(values)


@pytest.mark.parametrize(
    ("values", "seconds", "trials"),
    [
        ([1000, 1001, 999, 1000, 1000, 1000, 1000], 1.0, 3),
        ([1000, 2000, 500, 1000, 3000, 700, 1500], 1.0, 7),
        ([1000, 2000, 500, 1000, 3000, 700, 1500], 24.0, 4),
        # The minimum number of trials runs even if it exceeds the budget,
        ([1000, 2000, 500, 1000], 110, 3),
        # unless they are long.
        ([1000, 2000, 500, 1000], 1e6, 1),
    ],
)
def test_repeats_until_interval_is_narrow_or_budget_is_spent(values, seconds, trials):
    assert run_trials(Stopping(PROFILE), values, seconds) == trials


def test_time_goes_where_the_interval_is_widest():
    stopping = Stopping(PROFILE)
    noisy = [500.0, 1500.0, 900.0, 3000.0, 700.0, 1200.0, 800.0]
    speeds = {"cpu": [1000.0] * 7, "gpu0": [1000.0, 1100.0, 900.0, *[1000.0] * 4], "gpu1": noisy}
    pending = [planned(index, device) for index in range(7) for device in speeds]
    ran: list[PlannedTrial] = []
    while (chosen := stopping.next(pending)) is not None:
        pending.remove(chosen)
        ran.append(chosen)
        stopping.add(chosen, trial(speeds[chosen.device][chosen.index]))
    assert [each.device for each in ran[:9]] == [*speeds] * 3, "rounds first"
    assert {each.device for each in ran[9:]} == {"gpu0", "gpu1"}
    assert [each.device for each in ran[9:12]] == ["gpu1"] * 3
    assert len([each for each in ran if each.device == "gpu1"]) == 7


def test_variants_of_one_trial_are_as_narrow_as_the_widest():
    stopping = Stopping(PROFILE)
    for index, speed in enumerate([1000.0, 1500.0, 700.0]):
        tuned = trial(speed, variant=TUNED).windows
        stopping.add(planned(index), replace(trial(1000.0), windows=(*trial(1000.0).windows, *tuned)))
    assert stopping.next([planned(3)]) is not None
    assert stopping.widest == stopping.width(planned(3)) > PROFILE.target_interval


@pytest.mark.parametrize("keeps_programs", [True, False])
def test_a_program_that_is_kept_makes_room_for_another_reading(keeps_programs):
    compiled = VariantInfo(variant=BASELINE, params={"jit_compile": True}, changes=())
    first_step = Phase(variant=BASELINE, name=FIRST_STEP, start_ns=0, end_ns=60 * 10**9)
    stopping = Stopping(replace(PROFILE, trials=1, budget_s=120))
    long = replace(trial(1000, seconds=65), phases=(first_step,), variants=(compiled,))
    stopping.add(planned(0, "gpu0"), long, keeps_programs=keeps_programs)
    assert (stopping.next([planned(1, "gpu0")]) is not None) is keeps_programs


def test_what_fails_twice_in_the_same_way_is_not_repeated():
    """Its windows count, but more of them would end in the same way."""
    stopping = Stopping(PROFILE)
    values = [1000.0, 1500.0, 700.0, 1200.0, 900.0]
    for index, message in enumerate(["one", "other", "", "other", "other"]):
        assert stopping.next([planned(index)])
        status = Status.FAILED if message else Status.OK
        stopping.add(planned(index), replace(trial(values[index], status=status), message=message))
    assert not stopping.next([planned(5)])


@pytest.mark.parametrize("trials", [1, 3])
def test_failed_long_and_other_trials(trials):
    stopping = Stopping(replace(PROFILE, trials=trials))
    for index in range(trials):
        assert stopping.next([planned(index)])
        stopping.add(planned(index), replace(trial(1000, status=Status.FAILED), windows=()))
    assert not stopping.next([planned(trials)]), "further trials would be wasted"
    stopping = Stopping(replace(PROFILE, trials=3, max_trials=3))
    assert run_trials(stopping, [1000, 2000, 500], 1e6) == 3, "as many long ones as were asked for"
    stopping = Stopping(PROFILE)
    for index in range(3):
        stopping.add(planned(index, variants=(TUNED,)), trial(1000, variant=TUNED))
    assert not stopping.next([planned(3, variants=(TUNED,))]), "without baseline, tuned decides"
