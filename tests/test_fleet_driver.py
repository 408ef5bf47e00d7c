"""The driver of a fleet against a backend that plays scripts: turns, deaths, retries, resumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from harness.cli.measuring import raise_for_trials
from harness.errors import BusyError, TrialError
from harness.fleet.dispatch import Driver, seeded, tasks_for
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import (
    Done,
    Entry,
    Failed,
    FleetPlan,
    Lost,
    Message,
    Node,
    Order,
    Request,
    Started,
    State,
)
from harness.model.run import Status
from harness.run.store import read_run
from tests.fleets import FakeBackend, RecordingBoard, begun, done_trial, node, whole

RUN, START = begun()
IDS = tuple(trial.id for trial in RUN.planned)
LOST = Lost(message="The actor's node is gone.")


def folder_of(tmp_path: Path, nodes: Sequence[Node]) -> FleetFolder:
    folder = FleetFolder(tmp_path / "runs/fleet-x")
    folder.create(
        FleetPlan(
            fleet_id="fleet-x", created="", tfbench_version="", commit="", request=Request(), options={},
            nodes=tuple(nodes), chosen=tuple(item.key for item in nodes), problems=(),
        )
    )  # fmt: skip
    return folder


def drive(
    folder: FleetFolder,
    backend: FakeBackend,
    usable: Sequence[Node],
    tasks: Sequence[Node],
    **changes: object,
) -> tuple[tuple[Entry, ...], RecordingBoard]:
    board = RecordingBoard()
    ticks = count()
    driver = Driver(
        folder=folder, backend=backend, nodes={item.key: item for item in usable}, board=board,
        order_for=lambda task: seeded(Order(options={}), folder, task),
        now_s=lambda: float(next(ticks)), **changes,
    )  # fmt: skip
    return driver.run(tasks_for(tasks)), board


def backend_of(
    nodes: Sequence[Node], scripts: Mapping[str, Sequence[Message]], **changes: object
) -> FakeBackend:
    return FakeBackend(scripts=scripts, keys=frozenset(item.key for item in nodes), **changes)


def test_every_node_s_trials_lie_in_its_own_run_folder(tmp_path: Path) -> None:
    nodes = [node("a"), node("b")]
    backend = backend_of(nodes, {item.key: whole(RUN, START, tmp_path / item.key) for item in nodes})
    folder = folder_of(tmp_path, nodes)
    missing, board = drive(folder, backend, nodes, nodes)
    assert missing == ()
    assert [path.name for path in folder.runs()] == ["a", "b"]
    for path in folder.runs():
        run = read_run(path)
        assert [trial.id for trial in run.trials] == list(IDS)
        assert {trial.status for trial in run.trials} == {Status.OK}
    assert ("a", State.DONE) in board.states
    assert backend.at_once[-1] == {"a", "b"}, "they work at the same time"
    assert folder.unfinished() == ()


def test_nodes_of_one_machine_take_turns(tmp_path: Path) -> None:
    nodes = [node("a", machine="vm"), node("b", machine="vm"), node("c", machine="other")]
    backend = backend_of(nodes, {item.key: whole(RUN, START, tmp_path / item.key) for item in nodes})
    drive(folder_of(tmp_path, nodes), backend, nodes, nodes)
    assert {"a", "b", "c"} == set(backend.orders)
    assert not any({"a", "b"} <= together for together in backend.at_once)
    assert any("c" in together and len(together) == 2 for together in backend.at_once)


def test_a_node_that_dies_keeps_its_trials_and_a_spare_one_of_its_kind_does_the_rest(tmp_path: Path) -> None:
    a, b, other = node("a"), node("b"), node("c", kind="another kind")
    scripts = {
        "a": [Started(), START, done_trial(RUN, 0, tmp_path / "s"), LOST],
        "b-for-a": whole(RUN, START, tmp_path / "t", (1, 2)),
    }
    backend = backend_of([a, b, other], scripts, dies={"a": "a"})
    folder = folder_of(tmp_path, [a])
    missing, board = drive(folder, backend, [a, other, b], [a])
    assert missing == ()
    assert folder.finished(folder.journal()["a"].task) == {IDS[0]}
    assert backend.orders["b-for-a"].only == IDS[1:]
    assert {trial.id for trial in read_run(folder.path / "b-for-a").trials} == set(IDS[1:])
    (text,) = board.notes
    assert text.startswith("Node a died: ")
    assert "1 of its trials is kept. b runs the rest." in text


def test_a_trial_that_failed_is_told_but_not_one_that_another_node_did(tmp_path: Path) -> None:
    a, b, c = node("a"), node("b"), node("c", kind="another kind")
    ill = done_trial(RUN, 0, tmp_path / "s", Status.ENGINE_LOST)
    failed = [done_trial(RUN, 0, tmp_path / "c", Status.FAILED), done_trial(RUN, 1, tmp_path / "c")]
    scripts = {
        "a": [Started(), START, ill, LOST],
        "b-for-a": whole(RUN, START, tmp_path / "t"),
        "c": [Started(), START, *failed, Done(stops='{"stops": []}\n')],
    }
    folder = folder_of(tmp_path, [a, c])
    drive(folder, backend_of([a, b, c], scripts, dies={"a": "a"}), [a, b, c], [a, c])
    bad = {name: message for name, (status, message) in folder.endings().items() if status is not Status.OK}
    assert bad == {f"c/{IDS[0]}": "It failed."}
    with pytest.raises(TrialError, match=f"1 of 5 trials failed, first c/{IDS[0]}: It failed[.]"):
        raise_for_trials(folder.endings())


def test_what_nobody_can_do_is_reported_as_missing(tmp_path: Path) -> None:
    a, other = node("a"), node("c", kind="another kind")
    backend = backend_of([a, other], {"a": [Started(), START, LOST]}, dies={"a": "a"})
    folder = folder_of(tmp_path, [a])
    missing, _ = drive(folder, backend, [a, other], [a])
    assert [entry.task.folder for entry in missing] == ["a"]
    assert "No other node of its kind (one kind)" in missing[0].text
    assert [task.folder for task in folder.unfinished()] == ["a"], "a resumed fleet tries again"


def test_a_plan_that_kills_every_node_is_not_handed_on_for_ever(tmp_path: Path) -> None:
    nodes = [node(name) for name in "abcdef"]
    deadly = {"a": [Started(), LOST], "b-for-a": [Started(), LOST], "c-for-b-for-a": [Started(), LOST]}
    backend = backend_of(nodes, deadly, dies={"a": "a", "b-for-a": "b", "c-for-b-for-a": "c"})
    missing, _ = drive(folder_of(tmp_path, nodes[:1]), backend, nodes, nodes[:1])
    assert set(backend.orders) == set(deadly)
    assert len(missing) == 1


def test_one_node_s_full_disk_stops_nobody_else(tmp_path: Path) -> None:
    nodes = [node("a"), node("b")]
    full = Failed(message="Cannot write /x: The disk is full.", hint="Free some space.", exit_code=6)
    backend = backend_of(
        nodes, {"a": [Started(), START, full], "b": whole(RUN, START, tmp_path / "b")}
    )  # fmt: skip
    folder = folder_of(tmp_path, nodes)
    missing, _ = drive(folder, backend, nodes, nodes)
    assert "Node a: Cannot write /x: The disk is full." in missing[0].text
    assert len(read_run(folder.path / "b").trials) == 3
    assert set(backend.orders) == {"a", "b"}, "a chosen node does not do another one's plan for a failure"


def test_a_machine_that_somebody_measures_on_by_hand_is_waited_for(tmp_path: Path) -> None:
    a = node("a")
    busy = Failed(message="Another run is measuring.", hint="Wait.", exit_code=BusyError.exit_code)

    class Freed(FakeBackend):
        def start(self, task, node, order):  # type: ignore[no-untyped-def]
            if task.folder in self.orders:
                self.scripts = {"a": whole(RUN, START, tmp_path / "s")}
            super().start(task, node, order)

    backend = Freed(scripts={"a": [Started(), busy]}, keys=frozenset("a"))
    folder = folder_of(tmp_path, [a])
    missing, board = drive(folder, backend, [a], [a])
    assert missing == ()
    assert ("a", State.WAITING) in board.states[2:]


def test_a_node_that_others_hold_is_given_up(tmp_path: Path) -> None:
    a, b = node("a"), node("b", kind="another kind")
    backend = backend_of([a, b], {"b": whole(RUN, START, tmp_path / "b")})
    missing, _ = drive(folder_of(tmp_path, [a, b]), backend, [a, b], [a, b], wait_s=50)
    assert backend.stopped == ["a"]
    assert "within 50 s" in missing[0].text


def test_a_driver_that_was_killed_goes_on_with_what_is_left(tmp_path: Path) -> None:
    a, b = node("a"), node("b")
    folder = folder_of(tmp_path, [a, b])
    # The first driver saw a whole plan from a, and one trial from b, before it was killed.
    first = [Started(), START, done_trial(RUN, 0, tmp_path / "s")]
    backend = backend_of([a, b], {"a": whole(RUN, START, tmp_path / "a"), "b": first})
    ticks = count()
    driver = Driver(
        folder=folder, backend=backend, nodes={"a": a, "b": b}, board=RecordingBoard(),
        order_for=lambda task: seeded(Order(options={}), folder, task),
        now_s=lambda: float(next(ticks)),
    )  # fmt: skip
    ended = iter([*range(6)])
    plain = backend.wait

    def killed(timeout_s: float) -> Sequence[tuple[str, Message]]:
        if next(ended, None) is None:
            raise KeyboardInterrupt
        return plain(timeout_s)

    backend.wait = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        driver.run(tasks_for([a, b]))
    left = folder.unfinished()
    assert [task.folder for task in left] == ["b"]
    again = backend_of([a, b], {"b": whole(RUN, START, tmp_path / "t", (1, 2))})
    second = Driver(
        folder=folder, backend=again, nodes={"a": a, "b": b}, board=RecordingBoard(),
        order_for=lambda task: seeded(Order(options={}), folder, task),
        now_s=lambda: float(next(ticks)),
    )  # fmt: skip
    assert second.run(left) == ()
    assert set(again.orders) == {"b"}
    assert again.orders["b"].seed, "the node is told what is done already"
    assert {trial.id for trial in read_run(folder.path / "b").trials} == set(IDS)


def test_a_chosen_node_that_failed_its_checks_is_reported_with_the_reason(tmp_path: Path) -> None:
    a, b = node("a"), node("b", kind="another kind")
    backend = backend_of([a, b], {"b": whole(RUN, START, tmp_path / "b")})
    missing, _ = drive(
        folder_of(tmp_path, [a, b]), backend, [b], [a, b], reasons={"a": "Node a has no container engine."}
    )
    assert "Node a has no container engine." in missing[0].text


def test_a_node_that_an_earlier_driver_saw_through_is_no_spare(tmp_path: Path) -> None:
    a, b = node("a"), node("b")
    backend = backend_of([a, b], {})
    missing, _ = drive(
        folder_of(tmp_path, [a, b]), backend, [b], [a], reasons={"a": "Node a is full."}, chosen=("a", "b")
    )
    assert backend.orders == {}
    assert "Node a is full." in missing[0].text
