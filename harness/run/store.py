"""The only reader and writer of runs/<id>/.

    manifest.json   who, when, on what and how (model.Manifest)
    plan.json       the workloads' declarations and the trials in order
    trials/<id>/    out/spec.json, out/events.jsonl (written by the container), log.txt,
                    telemetry/<source>-<device>.csv, and trial.json once the trial has ended
    stops.json      why each workload was repeated no further, once the run has ended
    results.json, report.html   derived; made again from the rest by `tfbench report`

Nothing is rewritten: a trial without trial.json was cut off and reads as interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import StoreError, on_disk
from harness.model.run import SCHEMA_VERSION, Manifest, PlannedTrial, Run, Status, Stop, Trial
from harness.run.events import read_log
from harness.run.plain import from_plain, to_plain
from harness.telemetry.csvfile import read_series
from harness.untrusted import read_object
from workloads.protocol import Spec, Workload

# What damaged files make their readers raise.
_DAMAGE = (StoreError, KeyError, TypeError, ValueError, OverflowError, RecursionError)

# What the harness itself knows of a trial that has ended; the rest is in its events and telemetry.
_RECORD = (
    "id", "workload", "device", "index", "status", "exit_code", "message", "started_ns", "ended_ns", "gaps",
    "sampling",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFolder:
    """Where one trial's files lie."""

    path: Path

    @property
    def out(self) -> Path:
        """The folder that the container writes to."""
        return self.path / "out"

    @property
    def events(self) -> Path:
        """The container's event file."""
        return self.out / "events.jsonl"

    @property
    def telemetry(self) -> Path:
        """The folder of telemetry files."""
        return self.path / "telemetry"

    @property
    def record(self) -> Path:
        """The record that is written when the trial has ended."""
        return self.path / "trial.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Write a run, trial by trial.

    Every method raises StoreError when the folder cannot be written.
    """

    path: Path

    def create(self, run: Run) -> None:
        """Make the folder and write what is known of a run before its first trial."""
        with on_disk(self.path):
            self.path.mkdir(parents=True, exist_ok=False)
        write_json(self.path / "manifest.json", {"schema": SCHEMA_VERSION, **to_plain(run.manifest)})
        write_json(self.path / "plan.json", {"workloads": run.workloads, "planned": run.planned})

    def exists(self) -> bool:
        """Return whether the run has been created already."""
        return (self.path / "manifest.json").exists()

    def open_trial(self, planned: PlannedTrial, spec: Spec) -> TrialFolder:
        """Make a trial's folders afresh and leave the container its spec."""
        folder = self.trial(planned.id)
        with on_disk(self.path):
            shutil.rmtree(folder.path, ignore_errors=True)
            folder.out.mkdir(parents=True)
            folder.telemetry.mkdir()
        write_json(folder.out / "spec.json", spec)
        return folder

    def close_trial(self, trial: Trial, log: str) -> None:
        """Write how a trial ended; from now on it survives whatever comes."""
        folder = self.trial(trial.id)
        write_whole(folder.path / "log.txt", log)
        write_json(folder.record, {name: getattr(trial, name) for name in _RECORD})

    def close(self, stops: tuple[Stop, ...]) -> None:
        """Write why each workload was repeated no further."""
        write_json(self.path / "stops.json", {"stops": stops})

    def trial(self, trial_id: str) -> TrialFolder:
        """Return the folder of a trial."""
        return TrialFolder(path=self.path / "trials" / trial_id)

    def ended(self) -> Mapping[str, Trial]:
        """Return the trials that have ended so far, by their ids; one whose files are damaged counts as failed."""
        names = sorted(path.parent.name for path in self.path.glob("trials/*/trial.json"))
        return {
            name: read_trial(
                self.trial(name).path, PlannedTrial(id=name, workload="", device="", index=0, variants=())
            )
            for name in names
        }

    def finished(self) -> frozenset[str]:
        """Return the ids of the trials that went well and whose files are whole."""
        return frozenset(name for name, trial in self.ended().items() if trial.status is Status.OK)


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, whole or not at all; make its folder when it is not there.

    Raises:
        StoreError: it cannot be written.
    """
    with on_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as file:
            file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        return partial.replace(path)


def write_json(path: Path, value: Any) -> Path:
    """Write values of the model as JSON, as `write_whole` does."""
    return write_whole(path, json.dumps(to_plain(value), indent=1) + "\n")


def read_run(path: Path) -> Run:
    """Read a run folder, finished or not.

    Raises:
        StoreError: it is not a run of tfbench, or of a version that this one does not read.
    """
    hint = "Name a run folder of `tfbench bench`, under runs/."
    try:
        raw = read_object(path / "manifest.json")
        plan = read_object(path / "plan.json")
    except StoreError as error:
        raise StoreError(f"{path} is not a run: {error.message}", hint=hint) from error
    version = raw.pop("schema", None)
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version!r}; this tfbench reads {SCHEMA_VERSION}.",
            hint="Read it with the tfbench version that its manifest names.",
        )
    try:
        manifest = from_plain(raw, Manifest)
        workloads = from_plain(plan["workloads"], tuple[Workload, ...])
        planned = from_plain(plan["planned"], tuple[PlannedTrial, ...])
        trials = tuple(
            read_trial(folder, trial)
            for trial in planned
            if (folder := RunFolder(path).trial(trial.id).path).is_dir()
        )
    except _DAMAGE as error:
        raise StoreError(f"{path} is not a complete run: {_reason(error)}.", hint=hint) from error
    return Run(
        manifest=manifest, workloads=workloads, planned=planned, trials=trials, stops=_read_stops(path)
    )


def read_trial(path: Path, planned: PlannedTrial) -> Trial:
    """Read a trial's folder; one whose files are damaged counts as failed, and the others of its run remain."""
    try:
        return _whole_trial(TrialFolder(path=path), planned)
    except _DAMAGE as error:
        message = f"Its files are damaged: {_reason(error)}. Run it again with `tfbench bench --resume`."
        return planned.trial(Status.BAD_EVENTS, message)


def _whole_trial(folder: TrialFolder, planned: PlannedTrial) -> Trial:
    log = read_log(folder.events)
    series = read_series(folder.telemetry)
    # A link that leads nowhere is damage; that nothing is there means that the trial was cut off.
    if os.path.lexists(folder.record):
        trial = from_plain(read_object(folder.record), Trial)
        if trial.id != planned.id:
            raise ValueError(f"{folder.record} is of trial {trial.id}")
        if not 0 <= trial.started_ns <= trial.ended_ns < 1 << 63:
            raise ValueError(f"{folder.record} says that the trial ended before it began")
        if trial.status is Status.OK and (log.problem or not log.ended):
            raise ValueError(f"{folder.events}: {log.problem or 'the last event is missing'}")
    else:
        trial = planned.trial(Status.INTERRUPTED, "The harness ended before the trial.")
        times = [int(each.t_ns[i]) for each in series if len(each.t_ns) for i in (0, -1)]
        times += [phase.start_ns for phase in log.phases] + [window.end_ns for window in log.windows]
        trial = replace(trial, started_ns=min(times, default=0), ended_ns=max(times, default=0))
    return replace(trial, **log.parts(), telemetry=series, point=planned.point)


def _read_stops(path: Path) -> tuple[Stop, ...]:
    """Read why repeating ended; none where that is missing or damaged, and resuming the run writes it again."""
    try:
        return from_plain(read_object(path / "stops.json")["stops"], tuple[Stop, ...])
    except _DAMAGE:
        return ()


def _reason(error: BaseException) -> str:
    """Say in one line why plain values could not be turned into the model's."""
    lines = str(getattr(error, "message", error)).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
