"""Run one order on the node that it was sent to: as `tfbench bench`, with trials sent back as they end."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.errors import TfbenchError
from harness.fleet.messages import Begun, Done, Failed, Heartbeat, Message, Order, Started, TrialDone
from harness.fleet.packing import pack, unpack
from harness.model.options import Options
from harness.paths import Paths, paths_here
from harness.progress import Progress, Task
from harness.run.extracts import to_json
from harness.run.plain import from_plain
from harness.run.prepare import Prepared, execute, prepare, resume
from harness.run.resolve import resolve
from harness.run.store import TrialRecord, read_run

_END = None
Outbox = queue.Queue[Message | None]


def work(order: Order) -> Iterator[Message]:
    """Run `order` and yield what happens; ends with Done or Failed.

    The run folder lies on the node only until then. Whoever stops listening ends this process, and with it
    every container that it started.
    """
    yield Started()
    outbox: Outbox = queue.Queue()
    threading.Thread(target=_run, args=(order, paths_here(os.environ), outbox), daemon=True).start()
    while (message := outbox.get()) is not _END:
        yield message


def _run(order: Order, paths: Paths, outbox: Outbox) -> None:
    try:
        folder = scratch_folder(paths.cache)
        try:
            done = _measure(order, paths, folder, outbox)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        # The driver may end this process once it has this.
        outbox.put(done)
    except TfbenchError as error:
        outbox.put(Failed(message=error.message, hint=error.hint, exit_code=error.exit_code))
    except Exception as error:  # an unforeseen error must reach the driver in words, not as a hang
        message = f"{type(error).__name__}: {error}"
        outbox.put(Failed(message=message, hint="Run `tfbench doctor` on that node.", exit_code=1))
    finally:
        outbox.put(_END)


def _measure(order: Order, paths: Paths, scratch: Path, outbox: Outbox) -> Done:
    progress = Reporter(outbox, order.heartbeat_s)
    prepared = prepared_for(order, paths, scratch, progress)
    folder = prepared.folder
    outbox.put(begun(prepared))

    def ended(record: TrialRecord) -> None:
        archive = pack(folder.trial(record.id).path)
        outbox.put(
            TrialDone(trial_id=record.id, status=record.status, message=record.message, archive=archive)
        )

    execute(prepared, progress, ended)
    stops = (folder.path / "stops.json").read_text(encoding="utf-8")
    # A run that goes on lacks the telemetry of its first part here; the driver has all of it.
    brief = "" if order.seed else to_json(extract(analyse(read_run(folder.path))))
    return Done(stops=stops, brief=brief)


def begun(prepared: Prepared) -> Begun:
    """Return the message that a run is planned."""
    declared = tuple(entry.workload for entry in prepared.resolved.entries)
    return Begun(manifest=prepared.manifest, workloads=declared, planned=prepared.resolved.planned)


def prepared_for(order: Order, paths: Paths, scratch: Path, progress: Progress) -> Prepared:
    """Make the run of an order ready on this node, its folder below `scratch`.

    Raises:
        TfbenchError: as for harness.run.prepare.prepare and resume.
    """
    files = _own_files(order.files, paths.cache)
    if order.seed:
        path = scratch / "run"
        unpack(order.seed, path)
        prepared = resume(path, paths, progress)
        jobs = tuple(job for job in prepared.jobs if order.only is None or job.planned.id in order.only)
        return replace(prepared, jobs=jobs)
    options = from_plain(order.options, Options)
    own = tuple(files[str(path)] for path in options.files)
    resolved = resolve(replace(options, out=scratch, files=own))
    if order.only is not None:
        rest = tuple(trial for trial in resolved.planned if trial.id in order.only)
        resolved = replace(resolved, planned=rest)
    prepared = prepare(resolved, paths, progress, command=order.command)
    return replace(prepared, manifest=replace(prepared.manifest, commit=order.commit))


def scratch_folder(cache: Path) -> Path:
    """Make a folder that a container's user can reach, and remove those of workers that were killed.

    Raises:
        OSError: the cache cannot be written.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob("fleet-*-*"):
        owner = re.match(r"fleet-(\d+)-", path.name)
        if owner and not psutil.pid_exists(int(owner[1])):
            shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"fleet-{os.getpid()}-", dir=cache))
    folder.chmod(0o755)
    return folder


def _own_files(files: Mapping[str, str], cache: Path) -> dict[str, Path]:
    """Write the user's own files where a resumed run finds them again: by content.

    Returns:
        the driver's path -> this node's.
    """
    content = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    paths = {}
    for name, text in files.items():
        # Files that lay beside each other still do, so that one can import the other.
        beside = hashlib.sha256(str(Path(name).parent).encode()).hexdigest()[:8]
        path = cache / "workload-files" / content / beside / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        paths[name] = path
    return paths


class Reporter:
    """A Progress that sends heartbeats, no more often than the order says."""

    def __init__(self, outbox: Outbox, heartbeat_s: float) -> None:
        self._outbox = outbox
        self._heartbeat_s = heartbeat_s
        self._sent = float("-inf")

    @contextmanager
    def task(self, label: str, total: float | None, unit: str = "") -> Iterator[Task]:
        """Report the task's progress while the block runs."""
        yield _Bar(self, label, total)

    def line(self, text: str) -> None:
        """Send one line; it may replace the heartbeat before it."""
        self.heartbeat(Heartbeat(label=text, note="", done=0.0, total=None), urgent=False)

    def heartbeat(self, heartbeat: Heartbeat, *, urgent: bool) -> None:
        """Send `heartbeat` unless the last one is too short ago."""
        now = time.monotonic()
        if urgent or now - self._sent >= self._heartbeat_s:
            self._sent = now
            self._outbox.put(heartbeat)


class _Bar:
    def __init__(self, reporter: Reporter, label: str, total: float | None) -> None:
        self._reporter = reporter
        self._label = label
        self._total = total
        self._done = 0.0
        self._note = ""

    def advance(self, amount: float) -> None:
        self._done += amount
        self._send(urgent=False)

    def note(self, text: str, *, minor: bool = False) -> None:
        changed, self._note = text != self._note, text
        self._send(urgent=changed and not minor and self._label == "Trials")

    def _send(self, *, urgent: bool) -> None:
        heartbeat = Heartbeat(label=self._label, note=self._note, done=self._done, total=self._total)
        self._reporter.heartbeat(heartbeat, urgent=urgent)
