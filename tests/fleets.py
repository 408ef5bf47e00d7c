"""A backend that plays scripts, a board that records, and runs to send: fakes of the fleet's own interfaces."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.fleet.messages import (
    Begun,
    Done,
    Facts,
    Heartbeat,
    Message,
    Node,
    Order,
    Started,
    State,
    Task,
    TrialDone,
)
from harness.fleet.packing import pack
from harness.model.run import Run, Status
from harness.run.store import RunFolder, TrialRecord
from harness.system.disk_space import Disk
from tests.builders import cpu_run
from tests.fakes import good_events
from workloads.protocol import Spec

OURS = {"python": "3.11.7", "ray": "2.60.0", "tfbench": "0.1.0", "code": "cafe"}


def disk(folder: str, *, device: int = 1, free_gib: float = 100) -> Disk:
    """Describe a disk."""
    return Disk(folder=folder, device=device, free_bytes=int(free_gib * 2**30))


def node(key: str, *, kind: str = "one kind", machine: str = "", **changes: object) -> Node:
    """Describe a node of a machine of its own."""
    facts = Facts(
        versions=OURS, boot_id=machine or f"boot-{key}", kind=kind, engine="docker 28", images=("cpu",),
        cache_disk=disk("/cache"), image_disk=disk("/images", device=2), cpus=4,
    )  # fmt: skip
    plain = Node(key=key, node_id=f"id-{key}", address="10.0.0.1", resources={"CPU": 4.0}, facts=facts)
    return replace(plain, **changes)


def facts(one: Node, **changes: object) -> Node:
    """Return the node with other facts."""
    assert one.facts is not None
    return replace(one, facts=replace(one.facts, **changes))


def begun(trials: int = 3) -> tuple[Run, Begun]:
    """Return a run and the message that begins it."""
    run = cpu_run(trials=trials)
    return run, Begun(manifest=run.manifest, workloads=run.workloads, planned=run.planned)


def done_trial(run: Run, index: int, scratch: Path, status: Status = Status.OK) -> TrialDone:
    """Return the message of a trial that has ended."""
    planned = run.planned[index]
    folder = RunFolder(scratch / f"{planned.id}-{status}")
    trial = folder.open_trial(planned, Spec())
    trial.events.write_text("".join(good_events()), encoding="utf-8")
    folder.close_trial(
        TrialRecord(
            id=planned.id, workload=planned.workload, device=planned.device, index=planned.index,
            status=status, exit_code=0, message="" if status is Status.OK else "It failed.",
            started_ns=1, ended_ns=2,
        ),
        "log",
    )  # fmt: skip
    message = "" if status is Status.OK else "It failed."
    return TrialDone(trial_id=planned.id, status=status, message=message, archive=pack(trial.path))


def whole(run: Run, start: Begun, scratch: Path, indices: Sequence[int] = (0, 1, 2)) -> list[Message]:
    """Return what a node says that does all its trials."""
    trials = [done_trial(run, index, scratch) for index in indices]
    return [Started(), start, *trials, Done(stops='{"stops": []}\n')]


@dataclass
class FakeBackend:
    """Give each task's messages one a wait; a script ends with whatever its last message is.

    Attributes:
        scripts: task folder -> what its node says.
        dies: task folder -> the node that is dead once the script is through.
    """

    scripts: Mapping[str, Sequence[Message]]
    keys: frozenset[str]
    dies: Mapping[str, str] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    at_once: list[frozenset[str]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    _live: dict[str, deque[Message]] = field(default_factory=dict)

    def start(self, task: Task, node: Node, order: Order) -> None:
        self.orders[task.folder] = order
        self._live[task.folder] = deque(self.scripts.get(task.folder, ()))
        self.at_once.append(frozenset(self._live))

    def wait(self, timeout_s: float) -> Sequence[tuple[str, Message]]:
        text = []
        for folder in list(self._live):
            if self._live[folder]:
                text.append((folder, self._live[folder].popleft()))
            if not self._live[folder] and self.scripts.get(folder):
                del self._live[folder]
                if folder in self.dies:
                    self.keys -= {self.dies[folder]}
        return text

    def stop(self, folder: str) -> None:
        self.stopped.append(folder)
        self._live.pop(folder, None)

    def present(self) -> frozenset[str]:
        return self.keys


@dataclass
class RecordingBoard:
    """Keep everything that was shown."""

    states: list[tuple[str, State]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, task: Task, state: State, *, heartbeat: Heartbeat | None = None, note: str = "") -> None:
        self.states.append((task.folder, state))
        if note:
            self.notes.append(note)
