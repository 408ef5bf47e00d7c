"""A worker of multi-node training: a Ray actor that runs one container per trial."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from harness.fleet.fleet_plan import FleetPlan, Written
from harness.fleet.node_worker import prepared_for, scratch_folder, written
from harness.model.run import Run
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.prepare import make_runner
from harness.run.store import RunFolder
from harness.system.file_locks import default_path, measuring
from harness.untrusted import remove_tree


class TrainingWorker:
    """Prepare once, then run trials together with the other workers.

    Args:
        address: IP address for the other workers.
        first: whether this is the first worker on its machine, which holds the machine's lock.
    """

    def __init__(self, plan: FleetPlan, address: str, *, first: bool) -> None:
        self._plan = plan
        self._address = address
        self._first = first
        self._resources = ExitStack()

    def prepare(self) -> Run:
        """Prepare engine, image and data.

        Raises:
            TfbenchError: preparation failed on this node.
        """
        self._scratch = self._resources.enter_context(scratch_folder(paths_here().cache))
        self._prepared = prepared_for(self._plan, {}, self._scratch, Silent())
        self._resources.callback(self._prepared.engine.close)
        return self._prepared.run

    def free_port(self) -> str:
        """Return address:port of a free port for TensorFlow."""
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", 0))
            return f"{self._address}:{listener.getsockname()[1]}"

    def run(self, trial_id: str, workers: Sequence[str], rank: int) -> Written:
        """Run a trial as worker `rank` of the workers at these addresses.

        Raises:
            TfbenchError: another run is active on this machine, or the engine or disk failed.
        """
        prepared = self._prepared
        job = next(each for each in prepared.jobs if each.planned.id == trial_id)
        cluster = {"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": rank}}
        container = replace(
            job.container,
            network="host",
            environment={**job.container.environment, "TF_CONFIG": json.dumps(cluster)},
        )
        job = replace(job, spec=replace(job.spec, workers=len(workers)), container=container)
        folder = RunFolder(self._scratch / f"{len(workers)}-workers")
        runner = make_runner(replace(prepared, folder=folder), Silent())
        with measuring(default_path()) if self._first else nullcontext():
            (trial,) = runner.run((job,))
        try:
            return written(folder, trial)
        finally:
            remove_tree(folder.path)

    def close(self) -> None:
        """Close the engine and remove temporary files."""
        self._resources.close()
