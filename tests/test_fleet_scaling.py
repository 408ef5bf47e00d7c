"""Workers that train together: which nodes, whose CPUs, what is kept, what an interface counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import Begun, FleetPlan, Node, Request, State, TrialDone
from harness.fleet.multiworker import counts_in, measure, placement, runs_of, team_nodes, teams_of
from harness.fleet.training_worker import Result, shares, tf_config
from harness.model.run import Status
from harness.model.scaling import Placement
from harness.run.store import TrialRecord
from tests.fleets import RecordingBoard, begun, done_trial, node


def test_workers_of_one_machine_never_share_a_processor() -> None:
    result = shares(["vm", "other", "vm"], {"vm": 4, "other": 8})
    assert [share.cpus for share in result] == ["0-1", "", "2-3"]
    assert [(share.part, share.of) for share in result] == [(0, 2), (0, 1), (1, 2)]


def test_tensorflow_is_told_who_is_who() -> None:
    text = json.loads(tf_config(["10.0.0.1:1", "10.0.0.2:2"], 1))
    assert text == {
        "cluster": {"worker": ["10.0.0.1:1", "10.0.0.2:2"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(("text", "counts"), [("1,2,4", (1, 2, 4)), (" 2, 1,2", (1, 2)), ("8", (8,))])
def test_numbers_of_workers(text: str, counts: tuple[int, ...]) -> None:
    assert counts_in(text) == counts


@pytest.mark.parametrize("text", ["", "0", "1,,2", "two", "-1"])
def test_what_is_no_number_of_workers(text: str) -> None:
    with pytest.raises(UsageError, match="not a list of numbers"):
        counts_in(text)


def test_workers_are_of_the_kind_that_there_is_most_of() -> None:
    nodes = [node("a", kind="T4"), node("b", kind="H100"), node("c", kind="H100")]
    assert [item.key for item in team_nodes(nodes, (1, 2))] == ["b", "c"]
    with pytest.raises(UsageError, match=r"3 workers .* 1 of T4, 2 of"):
        team_nodes(nodes, (1, 3))


class FakeTeam:
    def __init__(self, scratch: Path, fails: str = "") -> None:
        self.nodes: tuple[Node, ...] = (node("a"), node("b"))
        self.ran: list[tuple[str, int]] = []
        self._scratch = scratch
        self._fails = fails
        self.plan, self.start = begun(trials=3)

    def prepare(self) -> Begun:
        profile = replace(PROFILES["quick"], trials=2)
        return replace(self.start, manifest=replace(self.start.manifest, profile=profile))

    def run(self, trial_id: str, workers: int) -> tuple[Result, ...]:
        self.ran.append((trial_id, workers))
        index = next(i for i, one in enumerate(self.plan.planned) if one.id == trial_id)
        status = Status.FAILED if trial_id == self._fails else Status.OK
        done: Sequence[TrialDone] = [
            done_trial(
                self.plan, index, self._scratch / f"{trial_id}-{workers}-{rank}-{len(self.ran)}", status
            )
            for rank in range(workers)
        ]
        return tuple(Result(record=_record(item), archive=item.archive) for item in done)


def _record(done: TrialDone) -> TrialRecord:
    return TrialRecord(
        id=done.trial_id, workload="w", device="cpu", index=0, status=Status(done.status), exit_code=0,
        message=done.message, started_ns=1, ended_ns=2,
    )  # fmt: skip


def folder_in(tmp_path: Path, nodes: tuple[Node, ...] = ()) -> FleetFolder:
    folder = FleetFolder(tmp_path / "fleet-x")
    folder.create(
        FleetPlan(fleet_id="fleet-x", created="", tfbench_version="", commit="", request=Request(), options={},
                  nodes=nodes, chosen=(), problems=())
    )  # fmt: skip
    return folder


def test_numbers_of_workers_take_turns_trial_by_trial_and_all_workers_are_kept(tmp_path: Path) -> None:
    folder, team = folder_in(tmp_path), FakeTeam(tmp_path)
    board = RecordingBoard()
    measure(folder, team, (1, 2), board)
    first, second = (item.id for item in team.plan.planned[:2])
    assert team.ran == [(first, 1), (first, 2), (second, 1), (second, 2)]
    one, two = "workers-1", "workers-2"
    assert board.states == [
        (one, State.WAITING), (two, State.WAITING),
        (one, State.RUNNING), (one, State.WAITING), (two, State.RUNNING), (two, State.WAITING),
        (one, State.RUNNING), (one, State.DONE), (two, State.RUNNING), (two, State.DONE),
    ]  # fmt: skip
    runs = runs_of(folder)
    assert sorted(runs) == [1, 2]
    assert runs[2].manifest.worker_nodes == ("a", "b")
    assert [trial.id for trial in runs[2].trials] == [first, second]
    assert (folder.path / f"workers-2/trials/{first}/workers/1-b/trial.json").is_file()


def test_what_went_well_is_not_run_again(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    first, second = (trial.id for trial in begun(trials=3)[0].planned[:2])
    board = RecordingBoard()
    measure(folder, FakeTeam(tmp_path / "1", fails=second), (1, 2), board)
    assert any("failed. It failed." in line for line in board.notes)
    assert board.states[-1] == ("workers-2", State.FAILED)
    again = FakeTeam(tmp_path / "2")
    measure(folder, again, (1, 2), RecordingBoard())
    assert again.ran == [(second, 1), (second, 2)]
    assert first not in dict(again.ran)


def test_where_workers_ran_and_what_the_others_recorded(tmp_path: Path) -> None:
    nodes = (node("a", machine="vm"), node("b", machine="vm"))
    folder = folder_in(tmp_path, nodes)
    team = FakeTeam(tmp_path)
    measure(folder, team, (1, 2), RecordingBoard())
    one, two = teams_of(folder)[1], teams_of(folder)[2]
    assert one.placement == Placement(nodes=("a",), machines=(0,), cpus=2)
    assert two.placement == Placement(nodes=("a", "b"), machines=(0, 0), cpus=2)
    assert not one.others["cifar100-mlp-cpu-0"]
    assert [trial.id for trial in two.others["cifar100-mlp-cpu-0"].values()] == ["cifar100-mlp-cpu-0"]


def test_more_workers_than_processors_use_the_same_ones() -> None:
    team = [node(name, machine="vm") for name in "abcdefgh"]
    made = placement([one.key for one in team[:2]], team)
    assert (made.machines, made.cpus, made.oversubscribed) == ((0, 0), 4, True)
    spread = placement(["a", "b"], [node("a"), node("b")])
    assert (spread.machines, spread.cpus, spread.oversubscribed) == ((0, 1), 4, False)
