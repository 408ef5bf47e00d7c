"""The only reader and writer of runs/fleet-<id>/.

fleet.json        what was asked for, the nodes with their facts, and what was wrong (model.FleetPlan)
journal.jsonl     what became of each task, one line each: what a killed driver goes on from
<task>/           a run folder as `tfbench bench` makes it: <node>, or <other>-for-<node> where another
                  node did the rest of one that died
comparison.html   derived; made again by `tfbench compare`
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import StoreError
from harness.fleet.messages import Begun, Done, Entry, FleetPlan, State, Task, TrialDone
from harness.fleet.packing import pack_run_so_far, unpack
from harness.model.run import PlannedTrial, Status
from harness.run.plain import from_plain, to_plain
from harness.run.store import RunFolder, on_disk

_ROOM = "Free some space on the driver's disk and continue with `tfbench fleet --resume`."
PLAN, JOURNAL, BRIEF = "fleet.json", "journal.jsonl", "run.extract.json"
# States from which a resumed fleet takes a task up again.
UNFINISHED = (State.WAITING, State.STARTING, State.RUNNING, State.FAILED, State.MISSING)


class FleetFolder:
    """Write a fleet as its nodes report it. Every method raises StoreError when the disk refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, plan: FleetPlan) -> None:
        """Make the folder and write the plan."""
        with on_disk(self.path, _ROOM):
            self.path.mkdir(parents=True, exist_ok=False)
        self.rewrite(plan)

    def rewrite(self, plan: FleetPlan) -> None:
        """Write the plan: again when the nodes of a resumed fleet are others."""
        with on_disk(self.path, _ROOM):
            partial = self.path / (PLAN + ".partial")
            partial.write_text(json.dumps(to_plain(plan), indent=1) + "\n", encoding="utf-8")
            partial.replace(self.path / PLAN)

    def read_plan(self) -> FleetPlan:
        """Return the plan.

        Raises:
            StoreError: this is no fleet folder.
        """
        hint = "Name a folder of `tfbench fleet`, runs/fleet-<id>."
        try:
            raw = json.loads((self.path / PLAN).read_text(encoding="utf-8"))
            return from_plain(raw, FleetPlan)
        except OSError as error:
            raise StoreError(f"{self.path} is not a fleet: {error.strerror}.", hint=hint) from error
        except ValueError as error:
            raise StoreError(f"{self.path / PLAN} cannot be read: {error}.", hint=hint) from error

    def note(self, entry: Entry) -> None:
        """Add a line to the journal; it is on the disk when this returns."""
        with on_disk(self.path, _ROOM), (self.path / JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(to_plain(entry), separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def journal(self) -> Mapping[str, Entry]:
        """Return the last entry of each task, by its folder; a torn last line is left out."""
        last: dict[str, Entry] = {}
        path = self.path / JOURNAL
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                entry = from_plain(json.loads(line), Entry)
                last[entry.task.folder] = entry
        return last

    def unfinished(self) -> tuple[Task, ...]:
        """Return the tasks to take up again: those not done, less those whose rest another one has."""
        last = self.journal()
        passed_on = {entry.task.instead_of for entry in last.values()}
        return tuple(
            entry.task
            for entry in last.values()
            if entry.state in UNFINISHED or (entry.state is State.LOST and entry.task.folder not in passed_on)
        )

    def begin(self, task: Task, message: Begun) -> None:
        """Write the run that a node has planned, unless it goes on with one."""
        folder = self.run(task)
        if not folder.exists():
            folder.create(message.manifest, message.workloads, message.planned)

    def add(self, task: Task, message: TrialDone) -> None:
        """Write a trial that has ended, whole or not at all."""
        self.replace(message.archive, self.run(task).trial(message.trial_id).path)

    def replace(self, archive: bytes, target: Path) -> None:
        """Write a trial's folder; one that failed is run again, and its folder made afresh, as by `bench`."""
        shutil.rmtree(target, ignore_errors=True)
        unpack(archive, target)

    def close(self, task: Task, message: Done) -> None:
        """Write why nothing was repeated further, and the run in brief."""
        self.run(task).write_text("stops.json", message.stops)
        if message.brief:
            self.run(task).write_text(BRIEF, message.brief)

    def seed(self, task: Task) -> bytes:
        """Return what a node needs to go on with the task's run; b"" when there is none yet."""
        folder = self.run(task)
        return pack_run_so_far(folder.path) if folder.exists() else b""

    def finished(self, task: Task) -> frozenset[str]:
        """Return the ids of the trials that went well."""
        return self.run(task).finished()

    def planned(self, task: Task) -> tuple[PlannedTrial, ...]:
        """Return the trials that the node planned, () when it had not come so far."""
        path = self.run(task).path / "plan.json"
        if not path.exists():
            return ()
        planned = json.loads(path.read_text(encoding="utf-8"))["planned"]
        return from_plain(planned, tuple[PlannedTrial, ...])

    def run(self, task: Task) -> RunFolder:
        """Return the run folder of a task."""
        return RunFolder(self.path / task.folder)

    def runs(self) -> tuple[Path, ...]:
        """Return the run folders that have at least one trial, in the order of their names."""
        result = {path.parents[2] for path in self.path.glob("*/trials/*/trial.json")}
        return tuple(sorted(result))

    def endings(self) -> Mapping[str, tuple[Status, str]]:
        """Return how each trial ended and what is said of it, by "node/trial"; not of nodes that were lost.

        What those left undone another one has done, or is missing.
        """
        lost = {name for name, entry in self.journal().items() if entry.state is not State.DONE}
        return {
            f"{path.name}/{trial}": ending
            for path in self.runs()
            if path.name not in lost
            for trial, ending in RunFolder(path).endings().items()
        }

    def write_text(self, name: str, text: str) -> Path:
        """Write a derived file, whole or not at all."""
        return RunFolder(self.path).write_text(name, text)
