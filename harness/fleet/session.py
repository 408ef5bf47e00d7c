"""What `tfbench fleet` does, in order: ask the nodes, write the fleet folder, send orders, keep what comes back."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import __version__
from harness.errors import FleetError, UsageError
from harness.fleet import cluster
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import (
    Begun,
    Board,
    Failed,
    FleetPlan,
    Heartbeat,
    Message,
    Node,
    Order,
    Request,
    State,
    Written,
)
from harness.fleet.multiworker import measure, team_nodes
from harness.fleet.nodes import choose
from harness.model.options import Options
from harness.rounding import counted
from harness.run.plain import from_plain, to_plain
from harness.run.prepare import commit_of, new_run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A fleet that is ready to go: its folder is written.

    Attributes:
        nodes: those that take part.
        missing: key of each other node that should -> why it cannot.
    """

    folder: FleetFolder
    plan: FleetPlan
    nodes: tuple[Node, ...]
    missing: Mapping[str, str] = field(default_factory=dict)


def prepare(options: Options, request: Request, *, checkout: Path, say: Callable[[str], None]) -> Ready:
    """Ask and choose the nodes and write the fleet folder.

    Raises:
        UsageError: no node fits the choice, or a file of the user's own cannot be sent.
        FleetError: none of those that fit can be used; the message names each with its reason.
        StoreError: the folder cannot be written.
    """
    now = datetime.datetime.now(datetime.UTC)
    plan = FleetPlan(
        created=now.isoformat(timespec="seconds"),
        tfbench_version=__version__,
        commit=commit_of(checkout),
        request=request,
        options=to_plain(options),
        nodes=(),
        chosen=(),
        files={str(path): _text(path) for path in shipped(options)},
    )
    return _ready(FleetFolder(options.out / f"fleet-{new_run_id(now)}"), plan, say)


def resume(path: Path, *, checkout: Path, say: Callable[[str], None]) -> Ready:
    """Make ready what a fleet that was cut off has not done, on the nodes that there are now.

    Raises:
        StoreError: `path` is no fleet folder.
        UsageError, FleetError: as for prepare.
    """
    folder = FleetFolder(path)
    return _ready(folder, replace(folder.read_plan(), commit=commit_of(checkout)), say)


def _ready(folder: FleetFolder, plan: FleetPlan, say: Callable[[str], None]) -> Ready:
    options = from_plain(plan.options, Options)
    say("Asking the nodes of the cluster")
    there, silent = cluster.survey(cloud=options.cloud_metadata)
    chosen = choose(there, plan.request.nodes)
    usable = tuple(node for node in chosen if node.key not in silent)
    missing = {
        key: f"Node {key}: {failed.message} {failed.hint}"
        for key, failed in silent.items()
        if key in {node.key for node in chosen}
    }
    if not usable:
        raise FleetError("No node of the cluster can be used.", hint=" ".join(missing.values()))
    missing |= left(folder, plan, there)
    keys = {node.key for node in there}
    # One that left and has a stand-in is no longer asked for.
    before = (key for key in plan.chosen if key in keys or key in missing or folder.done(key))
    plan = replace(
        plan,
        nodes=(*there, *(node for node in plan.nodes if node.key not in keys)),
        chosen=tuple(dict.fromkeys((*before, *(node.key for node in chosen)))),
    )
    folder.write_plan(plan)
    kinds = sorted({node.kind for node in usable})
    taking = "node takes" if len(usable) == 1 else "nodes take"
    say(f"{len(usable)} {taking} part, of {counted(len(kinds), 'kind')}: {'; '.join(kinds)}")
    return Ready(folder=folder, plan=plan, nodes=usable, missing=missing)


def left(folder: FleetFolder, plan: FleetPlan, there: Sequence[Node]) -> dict[str, str]:
    """Return the nodes that left before their plan was through, unless another one of the kind has come.

    Args:
        plan: as of the attempt before.
    """
    keys = {node.key for node in there}
    come = {node.kind for node in there if node.key not in plan.chosen}
    return {
        node.key: f"Node {node.key} is not in the cluster; its finished trials are kept."
        for node in plan.nodes
        if node.key in plan.chosen
        and node.key not in keys
        and node.kind not in come
        and not folder.done(node.key)
        and not plan.request.workers
    }


def run(ready: Ready, board: Board) -> Mapping[str, str]:
    """Run the plan on each node; return the nodes whose measurement is missing, with the reasons.

    Raises:
        StoreError: the driver's disk refuses; what came before is kept, and can be resumed.
    """
    order, folder = _order(ready.plan), ready.folder
    orders = [
        (node, replace(order, seed=folder.seed(node.key)))
        for node in ready.nodes
        if not folder.done(node.key)
    ]
    for key, why in ready.missing.items():
        board.show(key, State.FAILED, note=why)
    for node, _ in orders:
        board.show(node.key, State.WAITING)
    with closing(cluster.run_orders(orders, ready.plan.request.wait_s)) as messages:
        return {**ready.missing, **collect(messages, folder, board)}


def collect(messages: Iterable[tuple[str, Message]], folder: FleetFolder, board: Board) -> dict[str, str]:
    """Keep what nodes report; return the nodes that failed, with the reasons.

    Raises:
        StoreError: the driver's disk refuses.
    """
    missing = {}
    for key, message in messages:
        match message:
            case Heartbeat():
                board.show(key, State.RUNNING, heartbeat=message)
            case Begun():
                folder.begin(key, message)
            case Written():
                folder.add(key, message)
                if folder.done(key):
                    board.show(key, State.DONE)
                elif message.note:
                    board.show(key, State.RUNNING, note=f"{key}: {message.note}")
            case Failed():
                missing[key] = f"Node {key}: {message.message} {message.hint}"
                board.show(key, State.FAILED, note=missing[key])
    return missing


def scale(ready: Ready, counts: Sequence[int], board: Board, *, say: Callable[[str], None]) -> None:
    """Train over each number of workers instead of on each node by itself.

    Raises:
        UsageError: there are too few nodes of one kind.
        FleetError: a node is held by others, refuses or is gone; every trial before is kept.
        StoreError: the driver's disk refuses.
    """
    nodes = team_nodes(ready.nodes, counts)
    if len({node.machine for node in nodes}) < len(nodes):
        say("Workers share a machine: this tests the setup and measures no network.")
    with closing(cluster.Team(nodes, _order(ready.plan))) as team:
        begun = team.prepare(ready.plan.request.wait_s)
        measure(ready.folder, begun, nodes, counts, team.run, board)


def _order(plan: FleetPlan) -> Order:
    return Order(
        options=plan.options,
        files=plan.files,
        commit=plan.commit,
        command=plan.request.command,
        wait_s=plan.request.wait_s,
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
