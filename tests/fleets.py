"""Nodes and their messages for tests of the fleet."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.fleet.fleet_folder import FleetFolder, FleetPlan, Message, Node, Written, read_files
from harness.model.run import Options, Status
from harness.run.store import RunFolder
from tests.builders import cpu_run
from tests.fakes import good_events
from workloads.protocol import Spec


def node(key: str, *, kind: str = "one kind") -> Node:
    return Node(key=key, node_id=f"id-{key}", resources={"CPU": 4.0}, kind=kind)


def plan_of(nodes: Sequence[Node] = ()) -> FleetPlan:
    return FleetPlan(
        options=Options(params={"BATCH_SIZE": "8"}), files={"/x/my.py": "pass"}, command="tfbench fleet",
        wait_s=5.0, nodes=tuple(nodes), chosen=tuple(each.key for each in nodes), commit="c",
    )  # fmt: skip


def folder_in(tmp_path: Path, nodes: Sequence[Node] = ()) -> FleetFolder:
    folder = FleetFolder(tmp_path / "runs/fleet-x")
    folder.write_plan(plan_of(nodes))
    return folder


# The run planned by a node: three trials.
RUN = replace(cpu_run(trials=3), trials=())
IDS = [trial.id for trial in RUN.planned]


def done_trial(index: int, scratch: Path, status: Status = Status.OK) -> Written:
    planned = RUN.planned[index]
    folder = RunFolder(scratch / f"{planned.id}-{status}")
    trial = folder.open_trial(planned, Spec(scripts={}))
    trial.events.write_text("".join(good_events()), encoding="utf-8")
    message = "" if status is Status.OK else "It failed."
    folder.close_trial(replace(planned.trial(status, message), exit_code=0, started_ns=1, ended_ns=2), "log")
    note = f"{planned.id}: {status}. {message}" if message else ""
    return Written(folder=f"trials/{planned.id}", files=read_files(trial.path), note=note)


def whole(scratch: Path, indices: Sequence[int] = (0, 1, 2)) -> list[Message]:
    return [
        "preparing",
        RUN,
        *(done_trial(index, scratch) for index in indices),
        Written(folder="", files={"stops.json": b'{"stops": []}\n'}),
    ]
