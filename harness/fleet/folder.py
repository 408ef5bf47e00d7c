"""The only reader and writer of runs/fleet-<id>/.

fleet.json        what was asked for, and the nodes (messages.FleetPlan)
<node>/           a run folder as `tfbench bench` makes it; a plan that is through has stops.json
workers-<n>/      the same, of n nodes that trained together
comparison.html   derived; made again by `tfbench compare`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.errors import StoreError
from harness.fleet.messages import Begun, Done, FleetPlan, TrialDone
from harness.fleet.packing import pack_run_so_far, unpack
from harness.model.run import Status
from harness.run.plain import from_plain, to_plain
from harness.run.store import RunFolder, write_whole

PLAN, STOPS = "fleet.json", "stops.json"


class FleetFolder:
    """Write a fleet as its nodes report it. Every method that writes raises StoreError when the disk refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_plan(self, plan: FleetPlan) -> None:
        """Write the plan: again when the nodes of a resumed fleet are others."""
        write_whole(self.path / PLAN, json.dumps(to_plain(plan), indent=1) + "\n")

    def read_plan(self) -> FleetPlan:
        """Return the plan.

        Raises:
            StoreError: this is no fleet folder.
        """
        try:
            raw = json.loads((self.path / PLAN).read_text(encoding="utf-8"))
            return from_plain(raw, FleetPlan)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StoreError(
                f"{self.path} is not a fleet: {reason}.",
                hint="Name a folder of `tfbench fleet`, runs/fleet-<id>.",
            ) from error

    def begin(self, name: str, message: Begun) -> None:
        """Write the run that a node has planned, unless it goes on with one."""
        folder = self.run(name)
        if not folder.exists():
            folder.create(message.manifest, message.workloads, message.planned)

    def add(self, name: str, message: TrialDone) -> None:
        """Write a trial that has ended; one that failed before is replaced."""
        unpack(message.archive, self.run(name).trial(message.trial_id).path)

    def close(self, name: str, message: Done) -> None:
        """Write why nothing was repeated further: the plan is through."""
        self.run(name).write_text(STOPS, message.stops)

    def done(self, name: str) -> bool:
        """Return whether a node's plan is through."""
        return (self.path / name / STOPS).exists()

    def seed(self, name: str) -> bytes:
        """Return what a node needs to go on with its run; b"" when there is none yet."""
        folder = self.run(name)
        return pack_run_so_far(folder.path) if folder.exists() else b""

    def run(self, name: str) -> RunFolder:
        """Return one of its run folders."""
        return RunFolder(self.path / name)

    def runs(self) -> tuple[Path, ...]:
        """Return the run folders that have at least one trial, in the order of their names."""
        return tuple(sorted({path.parents[2] for path in self.path.glob("*/trials/*/trial.json")}))

    def endings(self) -> Mapping[str, tuple[Status, str]]:
        """Return how each trial ended and what is said of it, by "node/trial"."""
        return {
            f"{path.name}/{trial}": ending
            for path in self.runs()
            for trial, ending in RunFolder(path).endings().items()
        }
