"""The runner on engines that do their worst: what has ended is kept, and nothing is left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.engines import ContainerSpec
from harness.errors import EngineError, Interrupted, StoreError
from harness.model.run import ImageInfo, PlannedTrial, Run, Status, Trial
from harness.run.plan import PROFILES, Profile, plan_trials, spec_for
from harness.run.runner import Job, Runner
from harness.run.stopping import BUDGET_SPENT, EXHAUSTED
from harness.run.store import RunFolder, read_run
from harness.telemetry import Source
from tests.builders import manifest
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
from workloads.protocol import BASELINE, Data, Workload, boot_id

WORKLOAD = Workload(
    name="mlp", title="", batch_size=32, epochs=1,
    data=Data(name="x", shape=(4,), classes=2, train=2, test=2),
)  # fmt: skip
THREE = replace(
    PROFILES["smoke"],
    trials=3,
    max_trials=3,
    target_interval=0.05,
    stall_s=0.4,
    limit_s=30,
)
IMAGE = ImageInfo(target="cpu", reference="tfbench:cpu-x", digest="sha256:0", base="", lock_sha256="")
# A fake container's pieces come as fast as it is asked for them.
POLL_S = 0.002
REFUSED = EngineError("The engine refused.", hint="Ask it why.")


@dataclass
class Bench:
    """A run folder, an engine, and what it takes to run trials of one workload on it."""

    folder: RunFolder
    engine: FakeEngine
    profile: Profile = THREE
    devices: tuple[str, ...] = ("cpu",)
    progress: RecordingProgress = field(default_factory=RecordingProgress)
    sources: list[FakeSource] = field(default_factory=list)

    @property
    def planned(self) -> tuple[PlannedTrial, ...]:
        variants = {WORKLOAD.name: (BASELINE,)}
        return plan_trials([WORKLOAD], self.devices, self.profile, variants, {})

    def create(self) -> None:
        self.folder.create(Run(manifest=manifest(), workloads=(WORKLOAD,), planned=self.planned, trials=()))

    def run(self) -> tuple[Trial, ...]:
        runner = Runner(
            engine=self.engine, folder=self.folder, profile=self.profile, sources=self._sources,
            interval_s=0.01, progress=self.progress, poll_s=POLL_S,
        )  # fmt: skip
        return runner.run(tuple(self._job(planned) for planned in self.planned))

    def read(self) -> Run:
        return read_run(self.folder.path)

    @property
    def statuses(self) -> list[Status]:
        return [trial.status for trial in self.read().trials]

    def _sources(self) -> Sequence[Source]:
        self.sources.append(FakeSource())
        return self.sources[-1:]

    def _job(self, planned: PlannedTrial) -> Job:
        spec = spec_for(planned, self.profile, file="mlp.py", data_dir="/data", seed=1)
        container = ContainerSpec(
            image=IMAGE, command=("python3",), environment={}, out=Path("/nowhere"), mounts=(),
            trial_id=planned.id, run_id="run", memory_bytes=2 << 30,
        )  # fmt: skip
        return Job(planned=planned, spec=spec, container=container, gpus={})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(folder=RunFolder(tmp_path / "run"), engine=FakeEngine())


def run_all(bench: Bench, *scripts: Script) -> tuple[Trial, ...]:
    bench.engine = FakeEngine(*scripts)
    bench.create()
    return bench.run()


def test_trials_that_go_well(bench: Bench) -> None:
    records = run_all(bench, Script())
    assert [record.status for record in records] == [Status.OK] * 3
    assert bench.engine.started == ["mlp.cpu.0", "mlp.cpu.1", "mlp.cpu.2"]
    assert bench.engine.left_behind == []
    run = bench.read()
    assert [trial.status for trial in run.trials] == [Status.OK] * 3
    assert [stop.reason for stop in run.stops] == [EXHAUSTED]
    trial = run.trials[0]
    assert len(trial.windows) == 2
    assert trial.exit_code == 0
    assert 0 < trial.started_ns < trial.ended_ns
    assert bench.folder.trial(trial.id).log.read_text(encoding="utf-8") == "training ...\n"
    assert bench.progress.lines == []
    assert (bench.progress.tasks[0].total, bench.progress.tasks[0].done) == (3, 3)
    assert bench.progress.tasks[0].notes[0] == "mlp on cpu, trial 1"


def test_each_variant_is_told_as_it_begins_and_each_window_as_it_ends(bench: Bench) -> None:
    strange = line("variant", variant="\x1b[2J", params={}, changes=[])
    asked = line(
        "requests", variant="baseline", scenario="Server", batch_size=4, rate_per_s=5.0, planned=1, start_ns=1,
        end_ns=2, latency_ns=[1],
    )  # fmt: skip
    *others, last = good_events()
    events = (others[0], strange, *others[1:], asked, last)
    run_all(bench, Script(writes=events), *[Script()] * 2)
    task = bench.progress.tasks[0]
    assert task.notes[:2] == ["mlp on cpu, trial 1", "mlp on cpu, trial 1: baseline"]
    assert task.notes[2] == "mlp on cpu, trial 2", "no variant that was not asked for"
    assert task.minor[:2] == [f"mlp on cpu, trial 1: baseline, window {number}" for number in (1, 2)]
    assert task.minor[2] == "mlp on cpu, trial 1: baseline, requests (Server)"


def test_a_trial_that_says_nothing_is_known_to_go_on(bench: Bench) -> None:
    run_all(bench, Script(writes=("", "", "", *good_events())))
    assert len(bench.progress.tasks[0].steps) >= 6 * 3


def test_a_container_writes_into_its_own_trial(bench: Bench) -> None:
    run_all(bench, Script())
    for container in bench.engine.containers:
        assert container.spec.out == bench.folder.trial(container.spec.trial_id).out
        spec = json.loads((container.spec.out / "spec.json").read_text(encoding="utf-8"))
        assert spec["workload"] == "mlp"


def test_telemetry_is_taken_while_the_container_lives(bench: Bench) -> None:
    run_all(bench, Script(after_s=0.1))
    assert all(source.stopped for source in bench.sources)
    for trial in bench.read().trials:
        (series,) = trial.telemetry
        assert len(series.t_ns) >= 3
        assert trial.started_ns <= series.t_ns[0] <= series.t_ns[-1] <= trial.ended_ns
        assert [gap.reason for gap in trial.gaps] == ["There is no disk."]
        assert trial.sampling["ticks"] >= 3


def test_a_container_with_a_clock_of_its_own_is_not_aligned_with_telemetry(bench: Bench) -> None:
    ahead = line("start", wall_ns=time.time_ns() + 10**11, boot_id=boot_id())
    run_all(bench, Script(), Script(writes=(ahead, *good_events()[1:])), Script())
    gaps = {trial.id: [gap for gap in trial.gaps if gap.source == "clock"] for trial in bench.read().trials}
    assert gaps["mlp.cpu.0"] == gaps["mlp.cpu.2"] == []
    (gap,) = gaps["mlp.cpu.1"]
    assert "100 s off the harness' own" in gap.reason


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (Script(writes=(start_line(), error_line()), code=1), Status.FAILED, "raised ValueError: boom."),
        (Script(writes=(start_line(), "\x00garbage\n"), code=0), Status.BAD_EVENTS, "line 2"),
        (Script(writes=(start_line(),), code=137, out_of_memory=True), Status.OUT_OF_MEMORY, "2.0 GiB"),
    ],
)
def test_one_trial_that_fails_leaves_the_others(
    bench: Bench, script: Script, status: Status, said: str
) -> None:
    records = run_all(bench, Script(), script, Script())
    assert [record.status for record in records] == [Status.OK, status, Status.OK]
    assert bench.statuses == [Status.OK, status, Status.OK]
    assert said in bench.read().trials[1].message
    assert len(bench.progress.lines) == 1
    assert f"mlp.cpu.1: {status.value}." in bench.progress.lines[0]
    assert bench.engine.left_behind == []
    assert bench.progress.tasks[0].done == bench.progress.tasks[0].total


def test_what_a_broken_trial_measured_before_is_kept(bench: Bench) -> None:
    run_all(bench, Script(writes=(start_line(), window_line(100), "garbage\n"), code=1))
    assert [len(trial.windows) for trial in bench.read().trials] == [1, 1, 1]


class TestHanging:
    def test_a_trial_that_says_nothing_is_ended(self, bench: Bench) -> None:
        records = run_all(bench, Script(writes=(start_line(),), code=None), Script())
        assert [record.status for record in records] == [Status.TIMEOUT, Status.OK, Status.OK]
        assert "No event for 0.4 s" in records[0].message
        assert "--stall" in records[0].message
        assert bench.engine.containers[0].killed
        assert bench.engine.left_behind == []

    def test_a_trial_that_talks_on_for_ever_is_ended_too(self, bench: Bench) -> None:
        bench.profile = replace(THREE, limit_s=0.3, stall_s=60)
        chatter = tuple(line("warning", message="still here") for _ in range(10_000))
        records = run_all(bench, Script(writes=(start_line(), *chatter), code=None), Script())
        assert [record.status for record in records] == [Status.TIMEOUT, Status.OK, Status.OK]
        assert "Not done after 0.3 s" in records[0].message
        assert "--variants" in records[0].message
        assert "--stall" not in records[0].message
        assert bench.engine.containers[0].killed

    def test_a_slow_trial_that_keeps_talking_is_left_alone(self, bench: Bench) -> None:
        chatter = tuple(
            line("warning", message="still here") for _ in range(round(1.5 * THREE.stall_s / POLL_S))
        )
        events = good_events()
        begun = time.monotonic()
        records = run_all(bench, Script(writes=(*events[:-1], *chatter, events[-1])), Script())
        assert time.monotonic() - begun > THREE.stall_s
        assert records[0].status is Status.OK

    def test_garbage_is_no_sign_of_life(self, bench: Bench) -> None:
        records = run_all(bench, Script(writes=("garbage\n",) * 10_000, code=None), Script())
        assert records[0].status is Status.TIMEOUT


class TestLosingTheEngine:
    def test_in_the_middle_of_a_trial(self, bench: Bench) -> None:
        lost = EngineError("The engine does not answer.", hint="Start it again.")
        with pytest.raises(EngineError, match="does not answer"):
            run_all(bench, Script(), Script(raises={1: lost}), Script())
        assert bench.statuses == [Status.OK, Status.ENGINE_LOST]
        cut = bench.read().trials[1]
        assert lost.message in cut.message and lost.hint in cut.message
        assert len(cut.windows) == 0
        assert len(cut.variants) == 1, "what it said until then is kept"
        assert cut.telemetry
        assert all(source.stopped for source in bench.sources)

    def test_when_it_refuses_to_start_one(self, bench: Bench) -> None:
        with pytest.raises(EngineError, match="refused"):
            run_all(bench, Script(), Script(refused=REFUSED))
        assert bench.statuses == [Status.OK, Status.ENGINE_LOST]
        assert bench.engine.left_behind == []


class TestStopping:
    def test_ctrl_c_in_the_middle(self, bench: Bench) -> None:
        with pytest.raises(Interrupted) as caught:
            run_all(bench, Script(), Script(raises={1: KeyboardInterrupt()}), Script())
        assert bench.statuses == [Status.OK, Status.INTERRUPTED]
        assert f"--resume {bench.folder.path}" in caught.value.hint
        assert bench.engine.containers[1].killed
        assert bench.engine.left_behind == []
        assert bench.read().stops == ()

    def test_ctrl_c_while_a_container_starts(self, bench: Bench) -> None:
        with pytest.raises(Interrupted):
            run_all(bench, Script(refused=KeyboardInterrupt()))
        assert bench.statuses == [Status.INTERRUPTED]
        assert bench.engine.left_behind == []

    def test_a_fault_of_ours_leaves_no_container_either(self, bench: Bench) -> None:
        with pytest.raises(ZeroDivisionError):
            run_all(bench, Script(raises={1: ZeroDivisionError()}))
        assert bench.engine.left_behind == []


class TestFullDisk:
    """/dev/full refuses every write with ENOSPC, as a full disk does."""

    def test_when_a_trial_is_closed(self, bench: Bench) -> None:
        def fill(out: Path) -> None:
            (out.parent / "log.txt").symlink_to("/dev/full")

        with pytest.raises(StoreError, match="The disk is full") as caught:
            run_all(bench, Script(), Script(does=fill))
        assert "finished trials are kept" in caught.value.hint
        assert bench.statuses == [Status.OK, Status.INTERRUPTED]
        assert bench.engine.left_behind == []

    def test_when_telemetry_is_written(self, bench: Bench) -> None:
        def fill(out: Path) -> None:
            (out.parent / "telemetry" / "host-host.csv").symlink_to("/dev/full")

        with pytest.raises(StoreError, match="disk is full"):
            run_all(bench, Script(), Script(does=fill, after_s=0.2))
        # Reading /dev/full never ends.
        (bench.folder.trial("mlp.cpu.1").telemetry / "host-host.csv").unlink()
        assert bench.statuses == [Status.OK, Status.INTERRUPTED]
        assert bench.engine.left_behind == []


def test_a_trial_folder_that_cannot_be_made(bench: Bench) -> None:
    def occupy(out: Path) -> None:
        (out.parent.parent / "mlp.cpu.1").touch()

    with pytest.raises(StoreError, match=r"mlp\.cpu\.1"):
        run_all(bench, Script(does=occupy))
    assert bench.engine.started == ["mlp.cpu.0"]
    assert bench.folder.finished() == {"mlp.cpu.0"}


class TestResuming:
    def test_only_what_is_missing_runs(self, bench: Bench) -> None:
        with pytest.raises(Interrupted):
            run_all(bench, Script(), Script(raises={1: KeyboardInterrupt()}))
        kept = bench.folder.trial("mlp.cpu.0").record.read_bytes()
        bench.engine = FakeEngine()
        records = bench.run()
        assert bench.engine.started == ["mlp.cpu.1", "mlp.cpu.2"]
        assert [record.id for record in records] == ["mlp.cpu.1", "mlp.cpu.2"]
        assert bench.statuses == [Status.OK] * 3
        assert bench.folder.trial("mlp.cpu.0").record.read_bytes() == kept
        assert bench.read().stops[0].trials == 3

    def test_trials_that_failed_run_again(self, bench: Bench) -> None:
        run_all(bench, Script(), Script(writes=(start_line(), error_line()), code=1), Script())
        bench.engine = FakeEngine()
        bench.run()
        assert bench.engine.started == ["mlp.cpu.1"]
        assert bench.statuses == [Status.OK] * 3

    def test_a_whole_run_has_nothing_to_resume(self, bench: Bench) -> None:
        run_all(bench, Script())
        bench.engine = FakeEngine()
        assert bench.run() == ()
        assert bench.engine.started == []


class TestRepeating:
    def test_until_the_budget_is_spent(self, bench: Bench) -> None:
        bench.profile = replace(THREE, max_trials=9, budget_s=0.0)
        run_all(bench, *(Script(writes=good_events(speed)) for speed in (1000.0, 2000.0, 500.0)))
        assert len(bench.engine.started) == 3
        assert bench.read().stops[0].reason == BUDGET_SPENT

    def test_on_while_it_is_wide(self, bench: Bench) -> None:
        bench.profile = replace(THREE, max_trials=5, budget_s=60.0)
        run_all(
            bench, *(Script(writes=good_events(speed)) for speed in (1000.0, 2000.0, 500.0, 900.0, 3000.0))
        )
        assert len(bench.engine.started) == 5
        assert bench.read().stops[0].reason == EXHAUSTED
        assert bench.progress.tasks[0].done == bench.progress.tasks[0].total, "it counts what always runs"

    def test_devices_take_turns(self, bench: Bench) -> None:
        bench.devices = ("cpu", "gpu0")
        bench.profile = replace(THREE, trials=2, max_trials=2)
        run_all(bench, Script())
        assert bench.engine.started == ["mlp.cpu.0", "mlp.gpu0.0", "mlp.cpu.1", "mlp.gpu0.1"]
