"""Train one model over 1, 2, 4, ... nodes; each number of workers is stored as a separate run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.errors import UsageError
from harness.fleet.fleet_folder import FleetFolder
from harness.fleet.fleet_plan import Node, Written
from harness.model.run import Placement, Run, Status
from harness.progress import Progress
from harness.run.store import read_run
from workloads.protocol import MACHINE

PREFIX = "workers-"


def parse_counts(text: str) -> tuple[int, ...]:
    """Parse "1,2,4".

    Raises:
        UsageError: not a list of positive numbers.
    """
    numbers = [number.strip() for number in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d{0,3}", number) for number in numbers):
        raise UsageError(f"--workers {text} is not a list of numbers.", hint="Write it as --workers 1,2,4.")
    return tuple(sorted({int(number) for number in numbers}))


def measure(
    folder: FleetFolder,
    run: Run,
    nodes: Sequence[Node],
    counts: Sequence[int],
    train: Callable[[str, int], Sequence[Written]],
    progress: Progress,
) -> None:
    """Run every trial of the profile with each number of workers, interleaved by index.

    Trials that succeeded in an earlier attempt are skipped.

    Args:
        run: the run planned by the first worker.
        nodes: nodes of the workers, in order of rank.
        train: runs a trial on so many workers, as cluster.Team.run.

    Raises:
        FleetError: a worker's node was lost; earlier trials are kept.
        StoreError: the driver cannot write a file.
    """
    trials = tuple(
        trial
        for trial in run.planned
        if trial.index < run.manifest.profile.trials and trial.workload != MACHINE
    )
    for workers in counts:
        manifest = replace(
            run.manifest, run_id=f"{run.manifest.run_id}-{workers}", placement=placement(nodes, workers)
        )
        folder.begin(_name(workers), replace(run, manifest=manifest, planned=trials))
    finished = {
        (trial.id, workers)
        for workers in counts
        for trial in folder.run(_name(workers)).trials(trials)
        if trial.status is Status.OK
    }
    with progress.task("Multi-node training", float(len(trials) * len(counts))) as bar:
        for trial, workers in itertools.product(trials, counts):
            if (trial.id, workers) not in finished:
                bar.note(f"{trial.id}, workers: {workers}")
                results = train(trial.id, workers)
                _store(folder, workers, nodes, results)
                for note in filter(None, (each.note for each in results)):
                    progress.line(f"Workers {workers}, {note}")
            bar.advance(1)


def _store(folder: FleetFolder, workers: int, nodes: Sequence[Node], results: Sequence[Written]) -> None:
    """Write a trial: the folders of the other workers go into that of the first."""
    files = dict(results[0].files)
    for rank, result in enumerate(results[1:], 1):
        subfolder = f"workers/{rank}-{nodes[rank].key}"
        files |= {f"{subfolder}/{name}": content for name, content in result.files.items()}
    folder.add(_name(workers), replace(results[0], files=files))


def runs_by_workers(folder: FleetFolder) -> dict[int, Run]:
    """Return number of workers -> run recorded by the first worker.

    Raises:
        StoreError: a run cannot be read.
    """
    return {
        int(path.name.removeprefix(PREFIX)): read_run(path)
        for path in folder.runs()
        if path.name.startswith(PREFIX)
    }


def placement(nodes: Sequence[Node], workers: int) -> Placement:
    """Return the nodes and machines of the first `workers` workers."""
    machines = list(dict.fromkeys(node.machine for node in nodes))
    return Placement(
        nodes=tuple(node.key for node in nodes[:workers]),
        machines=tuple(machines.index(node.machine) for node in nodes[:workers]),
        cpus=nodes[0].cpus or None,
    )


def _name(workers: int) -> str:
    return f"{PREFIX}{workers}"
