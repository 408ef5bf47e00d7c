"""What a fleet costs its driver: real Ray tasks on made-up nodes, with stand-in trials that take no time.

`python -m benchmarks.fleet [NODES]`. Every node sends what a real one sends: a plan, heartbeats and whole trial
folders with telemetry. A stand-in measures nothing, so that all that is timed is the driver's own work; the
page is made as `tfbench fleet` makes it.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cli.comparing import Named, write_comparison
from harness.fleet.backend import RayBackend
from harness.fleet.driver import Driver, seeded, tasks_for
from harness.fleet.folder import BRIEF, FleetFolder
from harness.fleet.messages import (
    Begun,
    Done,
    Facts,
    FleetPlan,
    Heartbeat,
    Message,
    Node,
    Order,
    Started,
    TrialDone,
)
from harness.fleet.packing import pack
from harness.fleet.worker import brief_of
from harness.progress import Silent
from tests.builders import cpu_run
from tests.fleets import RecordingBoard
from tests.folders import write_run

NODES = 200
BEATS = 20
# Of one machine's two CPUs: so many stand-ins at once.
CPUS_EACH = 0.25


def stand_in(order: Order) -> Iterator[Message]:
    """Yield what a node yields that runs three trials; the node's name, in the options, makes its speed."""
    run = cpu_run(seed=1 + int(order.options["number"]), trials=3)
    yield Started()
    with tempfile.TemporaryDirectory() as scratch:
        folder = write_run(Path(scratch) / "run", run)
        yield Begun(manifest=run.manifest, workloads=run.workloads, planned=run.planned)
        for trial in run.trials:
            for number in range(BEATS // len(run.trials)):
                yield Heartbeat(label="Trials", note=trial.id, done=trial.index + number / 10, total=3.0)
            archive = pack(folder.trial(trial.id).path)
            yield TrialDone(trial_id=trial.id, status=trial.status, message="", archive=archive)
        yield Done(stops='{"stops": []}\n', brief=brief_of(folder.path))


def nodes_of(count: int, node_id: str) -> tuple[Node, ...]:
    """Return made-up nodes, each of a machine of its own, that are all the one real node."""
    facts = Facts(versions={}, kind="made up")
    return tuple(
        Node(
            key=f"node-{number:04}", node_id=node_id, address="", resources={"CPU": CPUS_EACH},
            facts=replace(facts, boot_id=str(number)),
        )
        for number in range(count)
    )  # fmt: skip


@contextmanager
def one_node() -> Iterator[Any]:
    """Start Ray on this machine alone."""
    import ray  # noqa: PLC0415 - as in harness.fleet.backend

    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parents[1])}},
    )
    try:
        yield ray
    finally:
        ray.shutdown()


def main(arguments: list[str]) -> None:
    """Run the fleet and print what each node cost."""
    count = int(arguments[0]) if arguments else NODES
    with one_node() as ray, tempfile.TemporaryDirectory() as scratch:
        nodes = nodes_of(count, ray.nodes()[0]["NodeID"])
        folder = FleetFolder(Path(scratch) / "fleet-x")
        folder.create(
            FleetPlan(
                fleet_id="fleet-x", created="", tfbench_version="", commit="", command="", options={},
                nodes=nodes, chosen=tuple(node.key for node in nodes), problems=(),
            )
        )  # fmt: skip
        board = RecordingBoard()
        driver = Driver(
            folder=folder, backend=RayBackend({node.key: node for node in nodes}, stand_in),
            nodes={node.key: node for node in nodes}, board=board, wait_s=1e9,
            order_for=lambda task: seeded(
                Order(fleet_id="x", options={"number": int(task.node[-4:])}), folder, task
            ),
        )  # fmt: skip
        began, cpu = time.monotonic(), time.process_time()
        missing = driver.run(tasks_for(nodes))
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
        size = sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())
        runs = folder.runs()
        began, cpu = time.monotonic(), time.process_time()
        named = [Named(path=path / BRIEF, label=path.name) for path in runs]
        page = write_comparison(named, folder.path, progress=Silent())
        page_s, page_cpu_s = time.monotonic() - began, time.process_time() - cpu
        page_bytes = page.stat().st_size if page else 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say = sys.stdout.write
    say(f"nodes {count}, missing {len(missing)}, run folders {len(runs)}, states shown {len(board.states)}\n")
    say(f"driver: {1e3 * cpu_s / count:.1f} ms of CPU time a node ({cpu_s:.1f} s of {wall_s:.0f} s)\n")
    say(f"driver's memory: {peak:.0f} MiB at most; run folders {size / count / 1e6:.2f} MB a node\n")
    say(f"compare page: {page_s:.1f} s ({page_cpu_s:.1f} s of this process), {page_bytes / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
