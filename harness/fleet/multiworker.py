"""Train one model over 1, 2, 4, ... nodes together, and keep each number of workers as a run of its own."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.errors import UsageError
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import Node, Written
from harness.model.run import Placement, Run
from harness.progress import Progress
from harness.run.store import read_run

PREFIX = "workers-"


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
    kinds = Counter(node.kind for node in nodes).most_common()
    if not kinds or kinds[0][1] < max(counts):
        have = ", ".join(f"{count} of {kind or 'an unknown kind'}" for kind, count in kinds)
        raise UsageError(
            f"{max(counts)} workers need as many nodes of one kind, but there are {have or 'none'}.",
            hint="Use fewer --workers, or start more nodes.",
        )
    return tuple([node for node in nodes if node.kind == kinds[0][0]][: max(counts)])


def measure(
    folder: FleetFolder,
    run: Run,
    nodes: Sequence[Node],
    counts: Sequence[int],
    train: Callable[[str, int], Sequence[Written]],
    progress: Progress,
) -> None:
    """Run every trial of the profile over each number of workers, interleaved by index.

    What has gone well in an earlier attempt is not run again.

    Args:
        run: what the first worker planned.
        nodes: those of the workers, in their order.
        train: has so many workers run a trial together, as cluster.Team.run.

    Raises:
        FleetError: a worker's node is gone; every trial before is kept.
        StoreError: the driver's disk refuses.
    """
    trials = tuple(trial for trial in run.planned if trial.index < run.manifest.profile.trials)
    for workers in counts:
        manifest = replace(
            run.manifest, run_id=f"{run.manifest.run_id}-{workers}", placement=placement(nodes, workers)
        )
        folder.begin(_name(workers), replace(run, manifest=manifest, planned=trials))
    finished = {workers: folder.run(_name(workers)).finished() for workers in counts}
    with progress.task("Training together", float(len(trials) * len(counts))) as bar:
        for trial, workers in itertools.product(trials, counts):
            if trial.id not in finished[workers]:
                bar.note(f"{trial.id}, workers: {workers}")
                results = train(trial.id, workers)
                _keep(folder, workers, nodes, results)
                for note in filter(None, (each.note for each in results)):
                    progress.line(f"Workers {workers}, {note}")
            bar.advance(1)


def _keep(folder: FleetFolder, workers: int, nodes: Sequence[Node], results: Sequence[Written]) -> None:
    """Write a trial: the first worker's folder is the run's, those of the others lie in it."""
    files = dict(results[0].files)
    for rank, result in enumerate(results[1:], 1):
        beside = f"workers/{rank}-{nodes[rank].key}"
        files |= {f"{beside}/{name}": content for name, content in result.files.items()}
    folder.add(_name(workers), replace(results[0], files=files))


def teams_of(folder: FleetFolder) -> dict[int, Run]:
    """Return number of workers -> what the first of them recorded.

    Raises:
        StoreError: a run cannot be read.
    """
    return {
        int(path.name.removeprefix(PREFIX)): read_run(path)
        for path in folder.runs()
        if path.name.startswith(PREFIX)
    }


def placement(nodes: Sequence[Node], workers: int) -> Placement:
    """Return where the first so many workers run."""
    machines = list(dict.fromkeys(node.machine for node in nodes))
    return Placement(
        nodes=tuple(node.key for node in nodes[:workers]),
        machines=tuple(machines.index(node.machine) for node in nodes[:workers]),
        cpus=nodes[0].cpus or None,
    )


def _name(workers: int) -> str:
    return f"{PREFIX}{workers}"
