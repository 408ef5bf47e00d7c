"""Run `tfbench fleet`: describe the nodes, write the fleet folder, send the plan, store the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from harness.errors import FleetError, TfbenchError, UsageError
from harness.fleet.cluster import Cluster
from harness.fleet.fleet_folder import FleetFolder, FleetPlan, Message, Node, Written
from harness.model.run import Run
from harness.model.workload import SCRIPTS
from harness.options import Options
from harness.progress import Progress, Task
from harness.wording import counted

ALL, ONE_PER_KIND = "all", "one-per-kind"


def run(cluster: Cluster, folder: FleetFolder, plan: FleetPlan, progress: Progress) -> dict[str, str]:
    """Run a plan on the current nodes that it selects; return the keys of missing nodes with the reasons.

    Raises:
        UsageError: no node matches the selection.
        FleetError: no selected node is usable; the hint gives the reason for each.
        StoreError: the driver cannot write a file; earlier results are kept and can be resumed.
    """
    progress.line("Querying the nodes of the cluster")
    nodes, failed = cluster.describe_nodes(cloud=plan.options.cloud_metadata)
    chosen = choose(nodes, plan.choice)
    usable = tuple(node for node in chosen if node.key not in failed)
    missing = {node.key: _describe(node.key, failed[node.key]) for node in chosen if node.key in failed}
    if not usable:
        raise FleetError("No node of the cluster is usable.", hint=" ".join(missing.values()))
    missing |= lost_nodes(folder, plan, nodes)
    keys = {node.key for node in nodes}
    # A lost node that was replaced is dropped.
    before = (key for key in plan.chosen if key in keys or key in missing or folder.done(key))
    plan = replace(
        plan,
        nodes=(*nodes, *(node for node in plan.nodes if node.key not in keys)),
        chosen=tuple(dict.fromkeys((*before, *(node.key for node in chosen)))),
    )
    folder.write_plan(plan)
    kinds = sorted({node.kind for node in usable})
    progress.line(f"Using {counted(len(usable), 'node')}: {'; '.join(kinds)}")
    progress.line(f"Fleet folder: {folder.path}")
    for reason in missing.values():
        progress.line(reason)
    previous_runs = [(node, folder.resume_files(node.key)) for node in usable if not folder.done(node.key)]
    with closing(cluster.run_plan(plan, previous_runs)) as messages:
        return missing | collect(messages, folder, progress)


def lost_nodes(folder: FleetFolder, plan: FleetPlan, nodes: Sequence[Node]) -> dict[str, str]:
    """Return key -> message of nodes that left before they finished and were not replaced by one of the same kind.

    Args:
        plan: the plan of the previous attempt.
    """
    keys = {node.key for node in nodes}
    new_kinds = {node.kind for node in nodes if node.key not in plan.chosen}
    return {
        node.key: f"Node {node.key} has left the cluster; its finished trials are kept."
        for node in plan.nodes
        if node.key in plan.chosen
        and node.key not in keys
        and node.kind not in new_kinds
        and not folder.done(node.key)
    }


def choose(nodes: Sequence[Node], selection: str) -> tuple[Node, ...]:
    """Select nodes by "all", "one-per-kind", names, or label selectors "name=value,...".

    Raises:
        UsageError: no node matches.
    """
    if selection == ALL:
        result = tuple(nodes)
    elif selection == ONE_PER_KIND:
        kinds: dict[str, Node] = {}
        for node in nodes:
            # A node of unknown kind counts as a separate kind.
            kinds.setdefault(node.kind or node.key, node)
        result = tuple(kinds.values())
    else:
        parts = [part.strip().partition("=") for part in selection.split(",") if part.strip()]
        keys = {name for name, equals, _ in parts if not equals}
        labels = {name: value for name, equals, value in parts if equals}
        result = tuple(
            node for node in nodes if (not keys or node.key in keys) and labels.items() <= node.labels.items()
        )
    if not result:
        available = "; ".join(f"{node.key} ({_labels(node)})" for node in nodes) or "none"
        raise UsageError(
            f"No node matches --nodes {selection}.",
            hint="Use all, one-per-kind, node names, or label selectors such as pool=a100,zone=b. "
            f"Nodes and their labels: {available}.",
        )
    return result


def _labels(node: Node) -> str:
    own = {name: value for name, value in node.labels.items() if not name.startswith("ray.io/")}
    return ", ".join(f"{name}={value}" for name, value in own.items()) or "no labels"


def collect(
    messages: Iterable[tuple[str, Message]], folder: FleetFolder, progress: Progress
) -> dict[str, str]:
    """Store what nodes report; return failed nodes with the reasons.

    Raises:
        StoreError: the driver cannot write a file.
    """
    missing = {}
    bars: dict[str, Task] = {}
    with ExitStack() as stack:
        for key, message in messages:
            if key not in bars:
                bars[key] = stack.enter_context(progress.task(key, None))
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
                    missing[key] = _describe(key, message)
                    bars[key].note("failed")
                    progress.line(missing[key])
    return missing


def _describe(key: str, error: TfbenchError) -> str:
    return f"Node {key}: {error}"


def user_files(options: Options) -> Mapping[str, str]:
    """Return the user's files that every node needs, path -> text.

    Raises:
        UsageError: a file is not readable, or not text.
    """
    scripts = [Path(name) for name in options.workloads if name.endswith(SCRIPTS)]
    # A script can import modules next to it; the filter skips lock and backup files of editors.
    modules = {
        path
        for file in scripts
        for path in file.parent.glob("*.py")
        if path.is_file() and path.stem.isidentifier()
    }
    files = {}
    for path in (*scripts, *sorted(modules)):
        try:
            files[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be sent to the nodes: {error}.",
                hint="Move the script to a separate folder: Python files next to it are sent too.",
            ) from error
    return files
