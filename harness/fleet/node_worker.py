"""Code that runs on a node: describe it, or run the plan like `tfbench bench` and send finished trials back."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from harness.fleet.fleet_folder import FleetPlan, Message, Node, Written, read_files, write_files
from harness.model.run import Trial
from harness.paths import paths_here
from harness.progress import LoggedTask, Progress, Task
from harness.run.prepare import Prepared, execute, prepare, resume
from harness.run.resolve import private_values, resolve
from harness.run.store import ENDED, RunFolder, write_atomic
from harness.system.cloud import cloud_facts
from harness.system.gpus import discover
from harness.system.machine import host_facts, system_description
from harness.system.shared_files import filling, working_folder

Outbox = queue.Queue[Message | Exception | None]


def describe(node: Node, cloud: bool) -> Node:
    """Return this node with its kind."""
    gpus, _ = discover()
    host = host_facts()
    described = kind(
        str(cloud_facts().get("cloud_instance_type", "")) if cloud else "",
        [gpu.name for gpu in gpus],
        system_description()["host_processor_model_name"],
        int(host.get("cpus", 0)),
        int(host.get("memory_bytes", 0)),
    )
    return replace(node, kind=described)


def kind(instance: str, gpus: Sequence[str], cpu: str, cpus: int, memory_bytes: int) -> str:
    """Describe a kind of machine. Memory is rounded up to 4 GiB, because kernels reserve varying amounts."""
    memory = f"{4 * -(-memory_bytes // (4 * 2**30))} GiB" if memory_bytes else ""
    gpu_words = [f"{gpus.count(name)}x {name}" for name in dict.fromkeys(gpus)]
    cpu_words = f"{cpus}x {cpu}" if cpu else f"{cpus} CPUs"
    return ", ".join(filter(None, (instance, *gpu_words, cpu_words, memory)))


def work(plan: FleetPlan, previous_run: Mapping[str, bytes]) -> Iterator[Message]:
    """Run the plan and yield messages; the last one has the file that marks the plan as finished.

    The run folder is temporary. Closing the iterator ends this process and with it all containers it started.

    Args:
        previous_run: files needed to resume a run, relative path -> content; empty for a new run.

    Raises:
        TfbenchError: as for harness.run.prepare.prepare, resume and execute.
    """
    yield "preparing"
    outbox: Outbox = queue.Queue()
    threading.Thread(target=_run, args=(plan, previous_run, outbox), daemon=True).start()
    while (message := outbox.get()) is not None:
        if isinstance(message, Exception):
            raise message
        yield message


def _run(plan: FleetPlan, previous_run: Mapping[str, bytes], outbox: Outbox) -> None:
    progress = Reporter(outbox)
    try:
        with working_folder(paths_here().cache / "fleet") as scratch:
            # The container's user is another one.
            scratch.chmod(0o755)
            prepared = prepared_for(plan, previous_run, scratch, progress)
            folder = prepared.folder
            outbox.put(prepared.run)
            progress.line("waiting for other runs on this machine")
            execute(prepared, progress, lambda trial: outbox.put(written(folder, trial)), wait_s=plan.wait_s)
            outbox.put(Written(folder="", files=read_files(folder.path, ENDED)))
        outbox.put(None)
    except Exception as error:  # the driver must see any error instead of a hang
        outbox.put(error)


def written(folder: RunFolder, trial: Trial) -> Written:
    """Return the message for a finished trial."""
    path = folder.trial(trial.id).path
    note = f"{trial.id} {trial.status.predicate}. {trial.message}" if trial.message else ""
    return Written(folder=str(path.relative_to(folder.path)), files=read_files(path), note=note)


def prepared_for(
    plan: FleetPlan, previous_run: Mapping[str, bytes], scratch: Path, progress: Progress
) -> Prepared:
    """Prepare the plan's run on this node, with its folder below `scratch`.

    Raises:
        TfbenchError: as for harness.run.prepare.prepare and resume.
    """
    paths = paths_here()
    user_folder = write_user_files(plan.files, paths.cache, progress)
    if previous_run:
        write_files(scratch / "run", previous_run)
        return resume(scratch / "run", paths, progress, private_values(plan.options))
    scripts = {name: str(user_folder / Path(name).relative_to("/")) for name in plan.files}
    workloads = tuple(scripts.get(name, name) for name in plan.options.workloads)
    here = resolve(replace(plan.options, out=scratch, workloads=workloads))
    prepared = prepare(here, paths, progress, command=plan.command)
    return replace(prepared, manifest=replace(prepared.manifest, commit=plan.commit))


def write_user_files(files: Mapping[str, str], cache: Path, progress: Progress) -> Path:
    """Write the user's files below a content-addressed folder, so that a resumed run finds them; return the folder.

    The directory structure is kept, so that files can import each other.
    """
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / "workload-files" / digest
    # Nodes on the same machine share its cache.
    with filling(cache / "workload-files.lock", progress):
        for name, text in files.items():
            path = folder / Path(name).relative_to("/")
            # A node that is already running would see this one's partial file.
            if not (path.is_file() and path.read_bytes() == text.encode()):
                write_atomic(path, text).chmod(0o644)
    return folder


@dataclass(frozen=True, slots=True)
class Reporter:
    """A Progress whose lines are sent to the driver."""

    outbox: Outbox

    def task(self, label: str, total: float | None) -> AbstractContextManager[Task]:
        """Report the task's progress."""
        return nullcontext(LoggedTask(self.line, label, total, every_s=2.0))

    def line(self, text: str) -> None:
        """Send one line at once."""
        self.outbox.put(text)
