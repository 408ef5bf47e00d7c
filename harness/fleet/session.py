"""What `tfbench fleet` does, in order: ask the nodes, write the fleet folder, send the plan, keep what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from harness.errors import FleetError, TfbenchError, UsageError
from harness.fleet.cluster import Cluster
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import FleetPlan, Message, Node, Written
from harness.fleet.multiworker import measure, team_nodes
from harness.fleet.nodes import choose
from harness.model.options import Options
from harness.model.run import Run
from harness.progress import Progress, Task
from harness.wording import counted


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


def prepare(cluster: Cluster, folder: FleetFolder, plan: FleetPlan, progress: Progress) -> Ready:
    """Ask and choose the nodes that there are now, and write the plan for them.

    Args:
        plan: a new one, or that of an earlier attempt.

    Raises:
        UsageError: no node fits the choice.
        FleetError: none of those that fit can be used; the message names each with its reason.
        StoreError: the folder cannot be written.
    """
    progress.line("Asking the nodes of the cluster")
    there, silent = cluster.survey(cloud=plan.options.cloud_metadata)
    chosen = choose(there, plan.choice)
    usable = tuple(node for node in chosen if node.key not in silent)
    missing = {node.key: _because(node.key, silent[node.key]) for node in chosen if node.key in silent}
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
    progress.line(f"Taking part: {counted(len(usable), 'node')} of {'; '.join(kinds)}")
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
        and not plan.workers
    }


def run(cluster: Cluster, ready: Ready, progress: Progress) -> Mapping[str, str]:
    """Run the plan on each node; return the nodes whose measurement is missing, with the reasons.

    Raises:
        StoreError: the driver's disk refuses; what came before is kept, and can be resumed.
    """
    folder = ready.folder
    for why in ready.missing.values():
        progress.line(why)
    seeds = [(node, folder.seed(node.key)) for node in ready.nodes if not folder.done(node.key)]
    with closing(cluster.run_plan(ready.plan, seeds)) as messages:
        return {**ready.missing, **collect(messages, folder, progress)}


def collect(
    messages: Iterable[tuple[str, Message]], folder: FleetFolder, progress: Progress
) -> dict[str, str]:
    """Keep what nodes report; return the nodes that failed, with the reasons.

    Raises:
        StoreError: the driver's disk refuses.
    """
    missing = {}
    bars: dict[str, Task] = {}
    with ExitStack() as held:
        for key, message in messages:
            if key not in bars:
                bars[key] = held.enter_context(progress.task(key, None))
            match message:
                case str():
                    bars[key].note(message)
                case Run():
                    folder.begin(key, message)
                case Written():
                    folder.add(key, message)
                    if message.note:
                        progress.line(f"{key}: {message.note}")
                    if folder.done(key):
                        bars[key].note("done")
                case TfbenchError():
                    missing[key] = _because(key, message)
                    bars[key].note("failed")
                    progress.line(missing[key])
    return missing


def _because(key: str, error: TfbenchError) -> str:
    return f"Node {key}: {error}"


def scale(cluster: Cluster, ready: Ready, counts: Sequence[int], progress: Progress) -> None:
    """Train over each number of workers instead of on each node by itself.

    Raises:
        UsageError: there are too few nodes of one kind.
        FleetError: a node is held by others, refuses or is gone; every trial before is kept.
        StoreError: the driver's disk refuses.
    """
    nodes = team_nodes(ready.nodes, counts)
    if len({node.machine for node in nodes}) < len(nodes):
        progress.line("Workers share a machine: this tests the setup and measures no network.")
    with closing(cluster.team(nodes, ready.plan)) as team:
        measure(ready.folder, team.prepare(), nodes, counts, team.run, progress)


def shipped(options: Options) -> Mapping[str, str]:
    """Return the files of the user's own that the plan needs on every node, path -> text.

    Raises:
        UsageError: one cannot be read, or is no text.
    """
    # What lies beside a workload file can be imported by it; an editor's lock or backup cannot.
    beside = {
        path
        for file in options.files
        for path in file.parent.glob("*.py")
        if path.is_file() and path.stem.isidentifier()
    }
    files = {}
    for path in (*options.files, *sorted(beside)):
        try:
            files[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be sent to the nodes: {error}.",
                hint="Keep the workload file in a folder of its own: the Python files beside it are sent too.",
            ) from error
    return files
