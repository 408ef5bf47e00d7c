"""Train one model over 1, 2, 4, ... nodes together, and keep each number of workers as a run of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from harness.errors import UsageError
from harness.fleet.dispatch import Board
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import Begun, Heartbeat, Node, State, Task
from harness.fleet.packing import unpack
from harness.fleet.training_worker import Result, Share, shares
from harness.model.run import PlannedTrial, Run, Status, Trial
from harness.model.scaling import Placement, Recorded
from harness.run.store import read_run, read_trial

PREFIX = "workers-"


class Team(Protocol):
    """Workers on nodes of their own, in an order that stays."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The node of each worker."""
        ...

    def prepare(self) -> Begun:
        """Make every worker ready; return the first one's plan.

        Raises:
            FleetError: one cannot do it; the message names its node.
        """
        ...

    def run(self, trial_id: str, workers: int) -> tuple[Result, ...]:
        """Have the first `workers` of them run a trial together; return what each recorded.

        Raises:
            FleetError: a node is gone, or refuses.
        """
        ...


def counts_in(text: str) -> tuple[int, ...]:
    """Read "1,2,4".

    Raises:
        UsageError: it is not a list of numbers above 0.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d{0,3}", word) for word in words):
        raise UsageError(f"--workers {text} is not a list of numbers.", hint="Write it as --workers 1,2,4.")
    return tuple(sorted({int(word) for word in words}))


def team_nodes(nodes: Sequence[Node], counts: Sequence[int]) -> tuple[Node, ...]:
    """Return as many nodes of one kind as the largest count takes: of the kind that there is most of.

    Raises:
        UsageError: there are too few.
    """
    kinds: dict[str, list[Node]] = {}
    for node in nodes:
        kinds.setdefault(node.kind, []).append(node)
    most = max(kinds.values(), key=len, default=[])
    if len(most) < max(counts):
        have = ", ".join(f"{len(some)} of {kind or 'an unknown kind'}" for kind, some in kinds.items())
        raise UsageError(
            f"{max(counts)} workers need as many nodes of one kind, but there are {have or 'none'}.",
            hint="Use fewer --workers, or start more nodes.",
        )
    return tuple(most[: max(counts)])


def measure(folder: FleetFolder, team: Team, counts: Sequence[int], board: Board) -> None:
    """Run every trial of the profile over each number of workers, interleaved by index.

    What has gone well in an earlier attempt is not run again.

    Raises:
        FleetError: a worker's node is gone; every trial before is kept.
        StoreError: the driver's disk refuses.
    """
    begun = team.prepare()
    trials = [trial for trial in begun.planned if trial.index < begun.manifest.profile.trials]
    names = [node.key for node in team.nodes]
    for workers in counts:
        folder.begin(_task(workers), _planned(begun, workers, names[:workers], trials))
        _show(board, folder, workers, len(trials), State.WAITING)
    for trial in trials:
        for workers in counts:
            if trial.id in folder.finished(_task(workers)):
                continue
            _show(board, folder, workers, len(trials), State.RUNNING, trial.id)
            results = team.run(trial.id, workers)
            keep(folder, workers, names, results)
            failed = next(
                (result.record for result in results if result.record.status is not Status.OK), None
            )
            note = f"{trial.id}, {workers} workers: {failed.status.value}. {failed.message}" if failed else ""
            missing = {trial.id for trial in trials} - folder.finished(_task(workers))
            ended = State.FAILED if missing else State.DONE
            state = ended if trial is trials[-1] else State.WAITING
            _show(board, folder, workers, len(trials), state, note=note)


def _show(
    board: Board, folder: FleetFolder, workers: int, total: int, state: State, now: str = "", note: str = ""
) -> None:
    done = len(folder.finished(_task(workers)))
    heartbeat = Heartbeat(label="Trials", note=now, done=float(done), total=float(total))
    board.show(_task(workers), state, heartbeat=heartbeat, note=note)


def keep(folder: FleetFolder, workers: int, names: Sequence[str], results: Sequence[Result]) -> None:
    """Write a trial: the first worker's folder is the run's, those of the others lie in it."""
    target = folder.run(_task(workers)).trial(results[0].record.id).path
    folder.replace(results[0].archive, target)
    for rank, result in enumerate(results[1:], 1):
        unpack(result.archive, target / "workers" / f"{rank}-{names[rank]}")


def runs_of(folder: FleetFolder) -> dict[int, Run]:
    """Return number of workers -> the run that the first of them recorded."""
    result = {}
    for path in folder.runs():
        if path.name.startswith(PREFIX):
            result[int(path.name.removeprefix(PREFIX))] = read_run(path)
    return result


def teams_of(folder: FleetFolder) -> dict[int, Recorded]:
    """Return number of workers -> what all of them recorded, and where they ran.

    Raises:
        StoreError: a run cannot be read.
    """
    runs = runs_of(folder)
    if not runs:
        return {}
    # CPUs were divided among the most workers, and stayed so when fewer of them trained.
    names = max((worker_nodes(run) for run in runs.values()), key=len)
    nodes = {node.key: node for node in folder.read_plan().nodes}
    return {
        workers: Recorded(
            run=run,
            placement=placement(worker_nodes(run), [nodes[name] for name in names if name in nodes]),
            others={trial.id: _others(folder, workers, run, trial.id) for trial in run.trials},
        )
        for workers, run in runs.items()
    }


def worker_nodes(run: Run) -> tuple[str, ...]:
    """Return the nodes of a run's workers, the first one's first."""
    return run.manifest.worker_nodes


def placement(names: Sequence[str], team: Sequence[Node]) -> Placement:
    """Return where workers ran.

    Args:
        names: their nodes.
        team: the nodes of the most workers that there were, between which machines were divided.
    """
    machine_of = {node.key: node.machine for node in team}
    machines = [machine_of.get(name, name) for name in names]
    numbers = {machine: number for number, machine in enumerate(dict.fromkeys(machines))}
    all_machines = [node.machine for node in team]
    cpus = {node.machine: node.facts.cpus if node.facts else 0 for node in team}
    share = next(iter(shares(all_machines, cpus)), Share())
    whole = cpus.get(all_machines[0], 0) if all_machines else 0
    each = whole // share.of if share.cpus else whole
    return Placement(
        nodes=tuple(names),
        machines=tuple(numbers[machine] for machine in machines),
        cpus=each or None,
        oversubscribed=not share.cpus and len(numbers) < len(machines),
    )


def _others(folder: FleetFolder, workers: int, run: Run, trial_id: str) -> dict[int, Trial]:
    """Return what the others recorded of a trial, by the worker's number."""
    planned = next(trial for trial in run.planned if trial.id == trial_id)
    result = {}
    for path in folder.run(_task(workers)).trial(trial_id).path.glob("workers/*"):
        rank = path.name.partition("-")[0]
        if rank.isdecimal():
            result[int(rank)] = read_trial(path, planned)
    return result


def _task(workers: int) -> Task:
    return Task(folder=f"{PREFIX}{workers}", node="", kind="")


def _planned(begun: Begun, workers: int, names: Sequence[str], trials: Sequence[PlannedTrial]) -> Begun:
    run_id = f"{begun.manifest.run_id}-{workers}"
    manifest = replace(begun.manifest, run_id=run_id, worker_nodes=tuple(names))
    return replace(begun, manifest=manifest, planned=tuple(trials))
