"""The side effects of `tfbench fleet`, in order: cluster, nodes, checks, fleet folder, orders."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import __version__
from harness.errors import FleetError, UsageError
from harness.fleet import backend, node_facts, nodes
from harness.fleet.dispatch import Board, Driver, seeded, tasks_for
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import Entry, FleetPlan, Node, Order, Problem, Request, Task
from harness.fleet.multiworker import measure, team_nodes
from harness.model.options import Options
from harness.model.run import target_for
from harness.rounding import counted
from harness.run.plain import to_plain
from harness.run.plan import device_words
from harness.run.prepare import commit_of, new_run_id
from harness.run.resolve import entries_of

# Heartbeats of all nodes together that one driver surely takes.
HEARTBEATS_PER_S = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A fleet that is ready to go: its folder is written, its nodes are known and checked."""

    folder: FleetFolder
    plan: FleetPlan
    usable: Mapping[str, Node]
    tasks: tuple[Task, ...]


def survey(
    options: Options, *, say: Callable[[str], None], checkout: Path
) -> tuple[tuple[Node, ...], tuple[Problem, ...]]:
    """Ask every node of the cluster what it is, and say what is wrong with which."""
    targets = needed_targets(options)
    alive = backend.alive_nodes()
    say(f"Checking {counted(len(alive), 'node')}")
    asked, problems = backend.ask(alive, targets, engine=options.engine, cloud=options.cloud_metadata)
    ours = node_facts.versions(checkout)
    for node in asked:
        problems += tuple(
            nodes.problems(node, ours, engine=options.engine, targets=targets, build=not options.images)
        )
    return asked, problems


def needed_targets(options: Options) -> tuple[str, ...]:
    """Return the images that a plan may need on a node, whichever GPUs it has."""
    if options.engine == "local":
        return ()
    kinds = (False,) if set(device_words(options.device)) <= {"cpu"} else (False, True)
    families = dict.fromkeys(entry.workload.image for entry in entries_of(options))
    return tuple(target_for(family, gpu=gpu) for family in families for gpu in kinds)


def prepare(options: Options, request: Request, *, checkout: Path, say: Callable[[str], None]) -> Ready:
    """Choose and check the nodes and write the fleet folder.

    Raises:
        UsageError: no node fits the choice, or a file of the user's own cannot be sent.
        FleetError: none of those that fit can be used; the message names each with its reason.
        StoreError: the folder cannot be written.
    """  # fmt: skip
    asked, problems = survey(options, say=say, checkout=checkout)
    chosen = nodes.choose(asked, request.nodes)
    now = datetime.datetime.now(datetime.UTC)
    fleet_id = f"fleet-{new_run_id(now)}"
    plan = FleetPlan(
        fleet_id=fleet_id,
        created=now.isoformat(timespec="seconds"),
        tfbench_version=__version__,
        commit=commit_of(checkout),
        request=request,
        options=to_plain(options),
        nodes=asked,
        chosen=tuple(node.key for node in chosen),
        problems=problems,
        files={str(path): _text(path) for path in shipped(options)},
    )
    usable = _usable(asked, problems)
    _some(chosen, usable, problems)
    folder = FleetFolder(options.out / fleet_id)
    folder.create(plan)
    return Ready(folder=folder, plan=plan, usable=usable, tasks=tasks_for(chosen))


def resume(path: Path, options: Options, *, checkout: Path, say: Callable[[str], None]) -> Ready:
    """Make ready what a fleet that was cut off has not done.

    Raises:
        StoreError: `path` is no fleet folder.
        FleetError: none of its nodes can be used.
    """
    folder = FleetFolder(path)
    plan = folder.read_plan()
    asked, problems = survey(options, say=say, checkout=checkout)
    usable = _usable(asked, problems)
    plan = replace(plan, nodes=asked, problems=problems, commit=commit_of(checkout))
    begun = folder.journal()
    never = [node for node in plan.chosen if node not in begun]
    tasks = folder.unfinished() + tuple(Task(folder=key, node=key, kind=_kind(asked, key)) for key in never)
    if tasks and not usable:
        _some([], usable, problems)
    folder.rewrite(plan)
    return Ready(folder=folder, plan=plan, usable=usable, tasks=tasks)


def run(ready: Ready, board: Board) -> tuple[Entry, ...]:
    """Have every task done; return those whose measurement is missing, with the reasons.

    Raises:
        StoreError: the driver's disk refuses; what came before is kept, and can be resumed.
    """
    plan = ready.plan
    order = _order(plan, heartbeat_s=max(1.0, len(ready.tasks) / HEARTBEATS_PER_S))
    driver = Driver(
        folder=ready.folder,
        backend=backend.RayBackend(ready.usable),
        nodes=ready.usable,
        board=board,
        order_for=lambda task: seeded(order, ready.folder, task),
        reasons={problem.node: f"{problem.message} {problem.hint}" for problem in plan.problems if problem.fatal},
        chosen=plan.chosen,
        retry=plan.request.retry,
        wait_s=plan.request.wait_s,
    )  # fmt: skip
    try:
        return driver.run(ready.tasks)
    finally:
        driver.stop()


def scale(ready: Ready, counts: Sequence[int], board: Board, *, say: Callable[[str], None]) -> None:
    """Train over each number of workers instead of on each node by itself.

    Raises:
        UsageError: there are too few nodes of one kind.
        FleetError, StoreError: as for scaling.measure.
    """
    plan = ready.plan
    nodes = team_nodes([ready.usable[key] for key in plan.chosen if key in ready.usable], counts)
    order = _order(plan)
    shared = len(nodes) - len({node.machine for node in nodes})
    if shared:
        say("Workers share a machine: this tests the setup and measures no network.")
    with backend.RayTeam(nodes, order, plan.request.wait_s) as team:
        measure(ready.folder, team, counts, board)


def _order(plan: FleetPlan, heartbeat_s: float = 1.0) -> Order:
    return Order(
        options=plan.options,
        files=plan.files,
        commit=plan.commit,
        command=plan.request.command,
        heartbeat_s=heartbeat_s,
    )


def shipped(options: Options) -> tuple[Path, ...]:
    """Return the files of the user's own that the plan needs on every node."""
    # What lies beside a workload file can be imported by it; an editor's lock or backup cannot.
    beside = {
        path
        for file in options.files
        for path in file.parent.glob("*.py")
        if path.is_file() and path.stem.isidentifier()
    }
    return tuple(dict.fromkeys((*options.files, *sorted(beside))))


def _text(path: Path) -> str:
    """Return a file that travels.

    Raises:
        UsageError: it cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be sent to the nodes: {error}.",
            hint="Keep the workload file in a folder of its own: the Python files beside it are sent too.",
        ) from error


def _usable(nodes: Sequence[Node], problems: Sequence[Problem]) -> dict[str, Node]:
    barred = {problem.node for problem in problems if problem.fatal}
    return {node.key: node for node in nodes if node.key not in barred}


def _kind(nodes: Sequence[Node], key: str) -> str:
    return next((node.kind for node in nodes if node.key == key), "")


def _some(chosen: Sequence[Node], usable: Mapping[str, Node], problems: Sequence[Problem]) -> None:
    if any(node.key in usable for node in chosen):
        return
    text = " ".join(problem.message for problem in problems if problem.fatal)
    raise FleetError(
        f"No node of the cluster can be used. {text}".strip(),
        hint=next((problem.hint for problem in problems if problem.fatal), "Start nodes that offer CPUs."),
    )
