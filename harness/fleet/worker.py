"""Do one order on the node that it was sent to: `tfbench bench` with its trials sent back as they end."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.errors import TfbenchError
from harness.fleet.messages import Begun, Done, Failed, Heartbeat, Message, Order, Started, TrialDone
from harness.fleet.packing import pack, unpack
from harness.fleet.scratch import held, kept
from harness.paths import Paths, paths_here
from harness.progress import Progress, Task
from harness.run.extracts import to_json
from harness.run.options import read_options
from harness.run.prepare import Prepared, execute, prepare, resume
from harness.run.resolve import resolve
from harness.run.store import TrialRecord, read_run

_END = None
Outbox = queue.Queue[Message | None]


def work(order: Order) -> Iterator[Message]:
    """Do `order` and yield what happens; ends with Done or Failed.

    The run folder lies on the node only until then. Whoever stops listening ends this process, and with it
    every container that it started.
    """
    yield Started()
    outbox: Outbox = queue.Queue()
    threading.Thread(target=_do, args=(order, paths_here(os.environ), outbox), daemon=True).start()
    while (message := outbox.get()) is not _END:
        yield message


def _do(order: Order, paths: Paths, outbox: Outbox) -> None:
    try:
        with held(paths.cache) as folder:
            done = _measure(order, paths, folder, outbox)
        # The driver may end this process when it has heard of it.
        outbox.put(done)
    except TfbenchError as error:
        outbox.put(Failed(message=error.message, hint=error.hint, exit_code=error.exit_code))
    except Exception as error:  # what nobody has foreseen must reach the driver in words, not as a hang
        said = f"{type(error).__name__}: {error}"
        outbox.put(Failed(message=said, hint="Run `tfbench doctor` on that node.", exit_code=1))
    finally:
        outbox.put(_END)


def _measure(order: Order, paths: Paths, scratch: Path, outbox: Outbox) -> Done:
    progress = Reporter(outbox, order.heartbeat_s)
    prepared = prepared_for(order, paths, scratch, progress)
    folder = prepared.folder
    declared = tuple(entry.workload for entry in prepared.resolved.entries)
    outbox.put(Begun(manifest=prepared.manifest, workloads=declared, planned=prepared.resolved.planned))

    def ended(record: TrialRecord) -> None:
        path = folder.trial(record.id).path
        outbox.put(
            TrialDone(
                trial_id=record.id, status=record.status, message=record.message, archive=pack(path)
            )
        )  # fmt: skip

    execute(prepared, progress, ended)
    stops = (folder.path / "stops.json").read_text(encoding="utf-8")
    # A run that goes on lacks the telemetry of its first part here; the driver has all of it.
    return Done(stops=stops, brief="" if order.seed else brief_of(folder.path))


def brief_of(run: Path) -> str:
    """Return a run in brief, as JSON, which is all that a comparison needs of it."""
    return json.dumps(to_json(extract(analyse(read_run(run)))))


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
    options = replace(read_options(order.options), out=scratch)
    options = replace(options, files=tuple(files[str(path)] for path in options.files))
    resolved = resolve(options)
    if order.only is not None:
        rest = tuple(trial for trial in resolved.planned if trial.id in order.only)
        resolved = replace(resolved, planned=rest)
    prepared = prepare(resolved, paths, progress, command=order.command)
    return replace(prepared, manifest=replace(prepared.manifest, commit=order.commit))


def _own_files(files: Mapping[str, str], cache: Path) -> dict[str, Path]:
    """Lay the user's own files where they are found again when the run is resumed: by content.

    Returns:
        the driver's path -> this node's.
    """
    paths = {}
    content = hashlib.sha256()
    for name, text in sorted(files.items()):
        content.update(f"{name}\0{text}\0".encode())
    for name, text in files.items():
        # Files that lay beside each other still do, so that one can import the other.
        place = hashlib.sha256(str(Path(name).parent).encode()).hexdigest()[:8]
        folder = kept(cache, content.hexdigest()[:16]) / place
        folder.mkdir(exist_ok=True)
        path = folder / Path(name).name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        paths[name] = path
    return paths


class Reporter:
    """A Progress that sends a heartbeat to the driver, at most one in `heartbeat_s`."""

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
