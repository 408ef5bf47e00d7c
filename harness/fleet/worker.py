"""What runs on a node: describe it, or run an order as `tfbench bench`, with trials sent back as they end."""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from harness.fleet.folder import STOPS, read_files, write_files
from harness.fleet.messages import Begun, Heartbeat, Message, Node, Order, Written
from harness.model.options import Options
from harness.model.platform import EngineInfo
from harness.model.run import Trial
from harness.paths import paths_here
from harness.progress import Progress, Task
from harness.run.plain import from_plain
from harness.run.prepare import Prepared, execute, prepare, resume
from harness.run.resolve import resolve
from harness.system.cloud import cloud_facts
from harness.system.gpus import discover
from harness.system.machine import host_facts, system_description

# Least time between two reports of progress.
HEARTBEAT_S = 2.0
Outbox = queue.Queue[Message | Exception | None]


def describe(node: Node, cloud: bool) -> Node:
    """Return this node with its kind and machine.

    Args:
        cloud: whether to ask the cloud's metadata service.
    """
    gpus, _ = discover()
    system = system_description(gpus, EngineInfo(name="", version="", isolated=False), {})
    host = host_facts()
    cpus = int(host.get("cpus", 0))
    return replace(
        node,
        kind=kind(
            str(cloud_facts().get("cloud_instance_type", "")) if cloud else "",
            [gpu.name for gpu in gpus],
            system["host_processor_model_name"],
            cpus,
            int(host.get("memory_bytes", 0)),
        ),
        machine=str(host.get("boot_id", node.node_id)),
        cpus=cpus,
    )


def kind(instance: str, gpus: Sequence[str], cpu: str, cpus: int, memory_bytes: int) -> str:
    """Describe what makes two nodes comparable; memory to the next 4 GiB, as kernels keep some of it."""
    memory = f"{4 * -(-memory_bytes // (4 * 2**30))} GiB" if memory_bytes else ""
    gpu_words = [f"{gpus.count(name)}x {name}" for name in dict.fromkeys(gpus)]
    cpu_words = f"{cpus}x {cpu}" if cpu else f"{cpus} CPUs"
    return ", ".join(filter(None, (instance, *gpu_words, cpu_words, memory)))


def work(order: Order) -> Iterator[Message]:
    """Run `order` and yield what happens; ends with the file that says that the plan is through.

    The run folder lies on the node only until then. Whoever stops listening ends this process, and with it
    every container that it started.

    Raises:
        TfbenchError: as for harness.run.prepare.prepare, resume and execute.
    """
    yield Heartbeat(label="Preparing")
    outbox: Outbox = queue.Queue()
    threading.Thread(target=_run, args=(order, outbox), daemon=True).start()
    while (message := outbox.get()) is not None:
        if isinstance(message, Exception):
            raise message
        yield message


def _run(order: Order, outbox: Outbox) -> None:
    try:
        with scratch_folder(paths_here(os.environ).cache) as scratch:
            _measure(order, scratch, outbox)
        outbox.put(None)
    except Exception as error:  # whatever it is must reach the driver in words, not as a hang
        outbox.put(error)


def _measure(order: Order, scratch: Path, outbox: Outbox) -> None:
    progress = Reporter(outbox)
    prepared = prepared_for(order, scratch, progress)
    folder = prepared.folder
    outbox.put(begun(prepared))

    def ended(record: Trial) -> None:
        trial = folder.trial(record.id).path
        note = f"{record.id}: {record.status}. {record.message}" if record.message else ""
        outbox.put(Written(folder=str(trial.relative_to(folder.path)), files=read_files(trial), note=note))

    progress.line("waiting until nothing else measures on this machine")
    execute(prepared, progress, ended, wait_s=order.wait_s)
    outbox.put(Written(folder="", files=read_files(folder.path, STOPS)))


def begun(prepared: Prepared) -> Begun:
    """Return the message that a run is planned."""
    run = prepared.run
    return Begun(manifest=run.manifest, workloads=run.workloads, planned=run.planned)


def prepared_for(order: Order, scratch: Path, progress: Progress) -> Prepared:
    """Make the run of an order ready on this node, its folder below `scratch`.

    Raises:
        TfbenchError: as for harness.run.prepare.prepare and resume.
    """
    paths = paths_here(os.environ)
    files = _own_files(order.files, paths.cache)
    if order.seed:
        write_files(scratch / "run", order.seed)
        return resume(scratch / "run", paths, progress)
    options = from_plain(order.options, Options)
    own = tuple(files[str(path)] for path in options.files)
    resolved = resolve(replace(options, out=scratch, files=own))
    prepared = prepare(resolved, paths, progress, command=order.command)
    return replace(prepared, manifest=replace(prepared.manifest, commit=order.commit))


@contextmanager
def scratch_folder(cache: Path) -> Iterator[Path]:
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
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
        # Whole or not at all: nodes that share a machine share its cache.
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o644)
        partial.replace(path)
        paths[name] = path
    return paths


class Reporter:
    """A Progress, and the one Task at a time, that sends heartbeats no more often than every HEARTBEAT_S."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._sent = float("-inf")
        self._state = Heartbeat(label="")

    @contextmanager
    def task(self, label: str, total: float | None, unit: str = "") -> Iterator[Task]:
        """Report the task's progress while the block runs."""
        self._state = Heartbeat(label=label, total=total)
        yield self

    def line(self, text: str) -> None:
        """Send one line at once."""
        self._outbox.put(Heartbeat(label=text))

    def advance(self, amount: float) -> None:
        """Move on by `amount` of the task's total."""
        self._report(replace(self._state, done=self._state.done + amount))

    def note(self, text: str, *, minor: bool = False) -> None:
        """Send `text` with the next heartbeat."""
        self._report(replace(self._state, note=text))

    def _report(self, state: Heartbeat) -> None:
        self._state = state
        now = time.monotonic()
        if now - self._sent >= HEARTBEAT_S:
            self._sent = now
            self._outbox.put(state)
