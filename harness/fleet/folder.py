"""The only reader and writer of runs/fleet-<id>/.

fleet.json        what was asked for, and the nodes (messages.FleetPlan)
<node>/           a run folder as `tfbench bench` makes it; a plan that is through has stops.json
workers-<n>/      the same, of n nodes that trained together
comparison.html   derived; made again by `tfbench compare`
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import StoreError, on_disk
from harness.fleet.messages import FleetPlan, Written
from harness.model.run import Run, Status
from harness.run.plain import from_plain
from harness.run.store import RunFolder, write_atomic, write_json
from harness.untrusted import read_object

PLAN, STOPS = "fleet.json", "stops.json"
# What a node needs of a run so far to go on with it: which trials ended well, and how fast they were.
_RUN_SO_FAR = ("manifest.json", "plan.json", "trials/*/trial.json", "trials/*/out/events.jsonl")


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """Write a fleet as its nodes report it. Every method that writes raises StoreError when the disk refuses."""

    path: Path

    def write_plan(self, plan: FleetPlan) -> None:
        """Write the plan: again when the nodes of a resumed fleet are others."""
        write_json(self.path / PLAN, plan)

    def read_plan(self) -> FleetPlan:
        """Return the plan.

        Raises:
            StoreError: this is no fleet folder.
        """
        try:
            return from_plain(read_object(self.path / PLAN), FleetPlan)
        except (StoreError, ValueError) as error:
            raise StoreError(
                f"{self.path} is not a fleet: {getattr(error, 'message', error)}",
                hint="Name a folder of `tfbench fleet`, runs/fleet-<id>.",
            ) from error

    def begin(self, name: str, run: Run) -> None:
        """Write the run that a node has planned, unless it goes on with one."""
        folder = self.run(name)
        if not folder.exists():
            folder.create(run)

    def add(self, name: str, message: Written) -> None:
        """Write a trial that has ended, in place of one that failed before, or that the plan is through."""
        folder = self.path / name / message.folder
        if message.folder:
            with on_disk(folder):
                shutil.rmtree(folder, ignore_errors=True)
        write_files(folder, message.files)

    def done(self, name: str) -> bool:
        """Return whether a node's plan is through."""
        return (self.path / name / STOPS).exists()

    def seed(self, name: str) -> dict[str, bytes]:
        """Return what a node needs to go on with its run; empty when there is none yet."""
        return read_files(self.path / name, *_RUN_SO_FAR)

    def run(self, name: str) -> RunFolder:
        """Return one of its run folders."""
        return RunFolder(self.path / name)

    def runs(self) -> tuple[Path, ...]:
        """Return the run folders that have at least one trial, in the order of their names."""
        return tuple(sorted({path.parents[2] for path in self.path.glob("*/trials/*/trial.json")}))

    def endings(self) -> Mapping[str, tuple[Status, str]]:
        """Return how each trial ended and what is said of it, by "node/trial"."""
        return {
            f"{path.name}/{name}": (trial.status, trial.message)
            for path in self.runs()
            for name, trial in RunFolder(path).ended_trials().items()
        }


def read_files(folder: Path, *patterns: str) -> dict[str, bytes]:
    """Return the content of a folder's regular files by their paths below it, in order; links stay behind.

    Args:
        patterns: which, as for Path.glob; all when there is none.
    """
    paths = sorted({path for pattern in patterns or ("**/*",) for path in folder.glob(pattern)})
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in paths
        if path.is_file() and not path.is_symlink()
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what `read_files` returned; a trial's record comes last, as it says that all is there.

    Raises:
        StoreError: the disk refuses, or a path leads out of the folder.
    """
    for name, content in sorted(files.items(), key=lambda file: file[0] == "trial.json"):
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise StoreError(f"A node sent a file named {name}.", hint="Check what runs on that node.")
        write_atomic(folder / name, content)
