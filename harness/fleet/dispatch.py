"""Decide what every node does next, and keep what it sends: no Ray here, no printing.

A task is one plan on one node. Tasks of nodes that share a machine take turns, since each would measure the
other. What is lost with a node is done again by another one of its kind, and what cannot be is reported.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from harness.defaults import FLEET_BUSY_AGAIN_S, FLEET_WAIT_S
from harness.errors import BusyError
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import (
    Begun,
    Done,
    Entry,
    Failed,
    Heartbeat,
    Lost,
    Message,
    Node,
    Order,
    Started,
    State,
    Task,
    TrialDone,
)

# How long one look at the nodes may take when they say nothing.
LOOK_S = 0.5
# How often the rest of one node's plan is handed on; a plan that kills every node must not take them all.
PASSES = 2


class Backend(Protocol):
    """The nodes at work, by the folder of the task that each does."""

    def start(self, task: Task, node: Node, order: Order) -> None:
        """Send `order` to `node`; what it answers comes out of `wait`."""
        ...

    def wait(self, timeout_s: float) -> Sequence[tuple[str, Message]]:
        """Return what nodes said, as (task folder, message); Done, Failed or Lost is a task's last."""
        ...

    def stop(self, folder: str) -> None:
        """End the task; nothing comes of it any more."""
        ...

    def present(self) -> frozenset[str]:
        """Return the keys of the nodes that are alive."""
        ...


class Board(Protocol):
    """Where the driver shows how far every task is."""

    def show(self, task: Task, state: State, *, heartbeat: Heartbeat | None = None, note: str = "") -> None:
        """Show a task's state; `heartbeat` is how far it is, `note` a sentence that stays."""
        ...


@dataclass(slots=True)
class _Active:
    """A task at work: when it was sent, when it began, and why it waits, "" when it does not."""

    task: Task
    node: Node
    sent_s: float
    started: bool = False


class Driver:
    """Run tasks on nodes until all have ended.

    Args:
        folder: where everything is kept.
        backend: the nodes at work.
        nodes: those that may be used, by key: the chosen ones and spares.
        board: shows progress.
        order_for: makes the order of a task.
        reasons: why chosen nodes that are not among `nodes` cannot be used.
        chosen: keys of all nodes with a plan of their own, those included that an earlier driver saw through:
            they are no spares.
        retry: hand the rest of a lost node's plan on.
        wait_s: how long a node may be held by others before it counts as missing.
        now_s: seconds since the epoch, and a clock to wait by.
    """

    def __init__(
        self,
        *,
        folder: FleetFolder,
        backend: Backend,
        nodes: Mapping[str, Node],
        board: Board,
        order_for: Callable[[Task], Order],
        reasons: Mapping[str, str] | None = None,
        chosen: Sequence[str] = (),
        retry: bool = True,
        wait_s: float = FLEET_WAIT_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._backend = backend
        self._nodes = nodes
        self._board = board
        self._order_for = order_for
        self._reasons = reasons or {}
        self._retry = retry
        self._wait_s = wait_s
        self._now_s = now_s
        self._queue: deque[Task] = deque()
        self._active: dict[str, _Active] = {}
        self._used: set[str] = set(chosen)
        self._gone: set[str] = set()
        self._not_before: dict[str, float] = {}
        self._busy_since: dict[str, float] = {}
        self._missing: list[Entry] = []

    def run(self, tasks: Sequence[Task]) -> tuple[Entry, ...]:
        """Run `tasks`; return an entry for each whose measurement is missing in the end, with the reason.

        Raises:
            StoreError: the driver's own disk refuses; every trial before is kept.
        """
        for task in tasks:
            self._enter(task, State.WAITING)
            self._used.add(task.node)
            if task.node in self._nodes:
                self._queue.append(task)
            else:
                why = self._reasons.get(task.node, f"Node {task.node} is not in the cluster.")
                self._hand_on(task, why, spares_only=task.node in self._reasons)
        while self._queue or self._active:
            self._start_what_can()
            for folder, message in self._backend.wait(LOOK_S):
                active = self._active.get(folder)
                if active is not None:
                    self._take(active, message)
            self._look_for_the_held()
        return tuple(self._missing)

    def stop(self) -> None:
        """End all that is at work; it can be resumed."""
        for folder in list(self._active):
            self._backend.stop(folder)
        self._active.clear()

    def _start_what_can(self) -> None:
        busy = {active.node.machine for active in self._active.values()}
        for task in list(self._queue):
            node = self._nodes[task.node]
            if node.machine in busy or self._now_s() < self._not_before.get(node.machine, 0.0):
                continue
            busy.add(node.machine)
            self._queue.remove(task)
            self._active[task.folder] = _Active(task=task, node=node, sent_s=self._now_s())
            self._enter(task, State.STARTING)
            self._backend.start(task, node, self._order_for(task))

    def _take(self, active: _Active, message: Message) -> None:
        task = active.task
        match message:
            case Started():
                active.started = True
                self._enter(task, State.RUNNING)
            case Heartbeat():
                self._board.show(task, State.RUNNING, heartbeat=message)
            case Begun():
                self._folder.begin(task, message)
            case TrialDone():
                self._busy_since.pop(active.node.machine, None)
                self._folder.add(task, message)
                if message.message:
                    note = f"{task.folder}: {message.trial_id}: {message.status}. {message.message}"
                    self._board.show(task, State.RUNNING, note=note)
            case Done():
                self._folder.close(task, message)
                self._leave(task, State.DONE)
            case Failed(exit_code=BusyError.exit_code):
                # Somebody measures on that machine by hand: wait for it as for any other turn.
                self._wait_for_machine(active, message)
            case Failed():
                self._leave(task, State.FAILED, f"{message.message} {message.hint}", say=False)
                self._hand_on(task, f"Node {task.node}: {message.message} {message.hint}", spares_only=True)
            case Lost():
                self._lose(active, message.message)

    def _wait_for_machine(self, active: _Active, message: Failed) -> None:
        task, machine = active.task, active.node.machine
        del self._active[task.folder]
        text = "" if machine in self._busy_since else f"{task.node} waits: {message.message}"
        began_s = self._busy_since.setdefault(machine, self._now_s())
        if self._now_s() - began_s > self._wait_s:
            reason = f"Node {task.node}: {message.message}"
            self._report(task, f"{reason} tfbench waited {self._wait_s:g} s.")
            return
        self._not_before[machine] = self._now_s() + FLEET_BUSY_AGAIN_S
        self._enter(task, State.WAITING, text)
        self._queue.append(task)

    def _lose(self, active: _Active, why: str) -> None:
        task = active.task
        self._leave(task, State.LOST, why, say=False)
        died = task.node not in self._backend.present()
        if died:
            self._gone.add(task.node)
        # Ray may say that a task is lost before it says that its node is dead.
        self._hand_on(task, f"Node {task.node}{' died' if died else ''}: {why}", spares_only=False)

    def _hand_on(self, task: Task, why: str, *, spares_only: bool) -> None:
        """Move the rest of a task to another node of the kind, or report what is missing."""
        finished = self._folder.finished(task)
        planned = self._folder.planned(task)
        rest = tuple(trial.id for trial in planned if trial.id not in finished) or None
        if planned and rest is None:
            # It died after its last trial.
            self._leave(task, State.DONE)
            return
        if task.only is not None and not planned:
            rest = task.only
        are = "is" if len(finished) == 1 else "are"
        kept = f" {len(finished)} of its trials {are} kept." if finished else ""
        other = self._another(task, spares_only) if self._retry and _passes(task) < PASSES else None
        if other is None:
            nobody = f" No other node of its kind ({task.kind or 'unknown'}) can run the rest."
            self._report(task, why + kept + nobody)
            return
        self._used.add(other.key)
        again = Task(
            folder=f"{other.key}-for-{task.folder}",
            node=other.key,
            kind=other.kind,
            instead_of=task.folder,
            only=rest,
        )
        self._enter(again, State.WAITING, f"{why}{kept} {other.key} runs the rest.")
        self._queue.append(again)

    def _another(self, task: Task, spares_only: bool) -> Node | None:
        """Return a living node of the task's kind: rather one that was not chosen, then one that is idle."""
        alive = self._backend.present()
        fit = [
            node
            for node in self._nodes.values()
            if node.key != task.node and node.key in alive and node.key not in self._gone
            and task.kind and node.kind == task.kind
        ]  # fmt: skip
        spare = [node for node in fit if node.key not in self._used]
        idle = [node for node in fit if node.key not in {active.node.key for active in self._active.values()}]
        for choice in (spare,) if spares_only else (spare, idle, fit):
            if choice:
                return choice[0]
        return None

    def _look_for_the_held(self) -> None:
        """Give up nodes that other users of the cluster hold for too long."""
        for active in list(self._active.values()):
            if not active.started and self._now_s() - active.sent_s > self._wait_s:
                self._backend.stop(active.task.folder)
                del self._active[active.task.folder]
                self._report(
                    active.task,
                    f"Node {active.node.key} did not start within {self._wait_s:g} s: other work in the "
                    "cluster holds its CPUs, or its environment cannot be set up.",
                )

    def _report(self, task: Task, why: str) -> None:
        entry = Entry(t_s=self._now_s(), task=task, state=State.MISSING, text=why)
        self._folder.note(entry)
        self._missing.append(entry)
        self._board.show(task, State.MISSING, note=why)

    def _enter(self, task: Task, state: State, text: str = "", *, say: bool = True) -> None:
        """Note a task's state; with `say` its text is shown as well, unless what follows tells it."""
        self._folder.note(Entry(t_s=self._now_s(), task=task, state=state, text=text))
        self._board.show(task, state, note=text if say else "")

    def _leave(self, task: Task, state: State, text: str = "", *, say: bool = True) -> None:
        self._active.pop(task.folder, None)
        self._enter(task, state, text, say=say)


def _passes(task: Task) -> int:
    return task.folder.count("-for-")


def tasks_for(nodes: Sequence[Node]) -> tuple[Task, ...]:
    """Return the first task of each chosen node."""
    return tuple(Task(folder=node.key, node=node.key, kind=node.kind) for node in nodes)


def seeded(order: Order, folder: FleetFolder, task: Task) -> Order:
    """Return the order of a task: what it runs, and its run so far."""
    return replace(order, only=task.only, seed=folder.seed(task))
