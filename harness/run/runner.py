"""Run the planned trials one after another: start, sample, watch, store; repeat until intervals are narrow enough."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.defaults import OUT_BYTES, OUT_DEPTH, OUT_FILES, POLL_S, SIZE_CHECK_S, Profile
from harness.engines import Container, ContainerSpec, Engine, Exit
from harness.errors import EngineError, Interrupted
from harness.model.device import gpu_names
from harness.model.run import PlannedTrial, Status, Trial
from harness.options import Options
from harness.progress import Progress, Task
from harness.run.events import EventTail, read_log
from harness.run.outcome import End, outcome
from harness.run.placing import placed
from harness.run.servers import Servers
from harness.run.stopping import Stopping
from harness.run.store import RunFolder, TrialFolder, session_of
from harness.telemetry import Source, Target
from harness.telemetry.sampler import Sampling, sample
from harness.wording import listed, point_words
from workloads.protocol import SOAK, Spec
from workloads.variants import FIX, STAGE, TUNED, has_any, refused

# How many times as long as a script the driver may be silent.
_DRIVER_TIMES = 1.2
_KILLED = Exit(code=-9, out_of_memory=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A planned trial with its container and spec; `container.out` is set when it starts."""

    planned: PlannedTrial
    spec: Spec
    container: ContainerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Run jobs on an engine and store each trial in the run folder as soon as it ends.

    Attributes:
        on_trial_end: called with each trial when its folder is complete.
        announced_end: returns how the machine is about to end, "" if it is not.
        max_files: limit of files and folders that a trial may write into its folder.
    """

    engine: Engine
    folder: RunFolder
    options: Options
    profile: Profile
    sources: Callable[[], Sequence[Source]]
    progress: Progress
    poll_s: float = POLL_S
    on_trial_end: Callable[[Trial], None] | None = None
    announced_end: Callable[[], str] = str
    max_files: int = OUT_FILES
    changed: Callable[[PlannedTrial], frozenset[str]] = lambda planned: frozenset()

    def run(self, jobs: Sequence[Job]) -> tuple[Trial, ...]:
        """Run the jobs in order as long as the stopping rule allows; return the trials that ran.

        Raises:
            EngineError: the engine does not answer; the current trial is recorded, later ones did not run.
            Interrupted: the user stopped the run, or the machine is about to end; likewise.
            StoreError: the run folder cannot be written.
        """
        with self.folder.lock():
            try:
                return self._run(jobs)
            except KeyboardInterrupt as error:
                raise self._interrupted() from error

    def _run(self, jobs: Sequence[Job]) -> tuple[Trial, ...]:
        stopping, servers = Stopping(self.profile), Servers(self.engine, self.folder, self.progress)
        by_id = {job.planned.id: job for job in jobs}
        ended = {trial.id: trial for trial in self.folder.trials(job.planned for job in jobs)}
        pending = []
        for job in jobs:
            earlier = ended.get(job.planned.id)
            if earlier and not earlier.failed:
                stopping.add(job.planned, earlier, keeps_programs=job.spec.keeps_programs)
            else:
                pending.append(job.planned)
        trials: list[Trial] = []
        required = sum(job.planned.index < self.profile.trials for job in jobs)
        done = len(jobs) - len(pending)
        try:
            while (planned := stopping.next(pending)) is not None:
                pending.remove(planned)
                done += 1
                job = _continued(by_id[planned.id], (*ended.values(), *trials))
                with self.progress.task(
                    _label(done, required, stopping), len(job.spec.variants) * job.spec.windows
                ) as bar:
                    trials.append(self._run_trial(job, servers, bar))
                stopping.add(planned, trials[-1], keeps_programs=job.spec.keeps_programs)
                self._report(planned, stopping)
        finally:
            servers.close_all()
        self.folder.close()
        return tuple(trials)

    def _report(self, planned: PlannedTrial, stopping: Stopping) -> None:
        """Print the speeds so far of what a trial has measured."""
        if speeds := stopping.speeds(planned):
            texts = (
                f"{variant} {float(f'{speed:.4g}'):,.10g}/s"
                + (f" {_plus_minus(width)}" if width < math.inf else "")
                for variant, (speed, width) in speeds.items()
            )
            self.progress.line(f"  {_name(planned)}: {', '.join(texts)}")

    def _run_trial(self, job: Job, servers: Servers, bar: Task) -> Trial:
        planned = job.planned
        servers.clear(planned)
        folder = self.folder.open_trial(planned)
        label = _name(planned)
        bar.note(label)
        started_ns = time.monotonic_ns()
        exit_: Exit | None = None
        killed: tuple[Status, str] | None = None
        sampling = Sampling()
        cause: BaseException | None = None
        try:
            container = servers.start(planned, job.container)
            uuids = job.container.gpu.uuids if job.container.gpu else ()
            target = Target(pid=container.pid, gpus=dict(zip(gpu_names(planned.device), uuids, strict=False)))
            with sample(self.sources(), target, folder.telemetry, self.options.rate_hz) as sampling:
                self.folder.announce(planned, placed(job.spec, container.seen))
                exit_, killed = self._watch(container, folder, job, bar, label)
        except (EngineError, Interrupted, KeyboardInterrupt) as error:
            cause = error
        finally:
            log_text = servers.log(planned)
            if exit_ is None or killed or not self._ended(folder):
                servers.close(session_of(planned.id))
        log = read_log(folder.events)
        lost = isinstance(cause, EngineError) and not self.engine.answers()
        end = End(
            exit=exit_, log=log, output=log_text, killed=killed, cause=cause, lost=lost,
            memory_bytes=job.container.memory_bytes,
        )  # fmt: skip
        status, message = outcome(end, planned.variants)
        if status is Status.OK and (files := self._changed_files(planned)):
            status = Status.FAILED
            message = (
                f"{files} changed during the run. Undo that and go on with --resume, or start a new run."
            )
        ended_ns = time.monotonic_ns()
        trial = replace(
            planned.trial(status, message),
            exit_code=exit_.code if exit_ else None,
            started_ns=started_ns,
            ended_ns=ended_ns,
            gaps=sampling.gaps,
            sampling=sampling.cost,
            **log.parts(),
        )
        self.folder.close_trial(trial, log_text)
        if self.on_trial_end is not None:
            self.on_trial_end(trial)
        if status is not Status.OK:
            self.progress.line(f"{planned.id} {status.predicate}. {message}")
        if cause is not None and lost:
            raise cause
        if isinstance(cause, Interrupted):
            raise cause
        if isinstance(cause, KeyboardInterrupt):
            raise self._interrupted() from cause
        return trial

    def _changed_files(self, planned: PlannedTrial) -> str:
        """Return the files that a trial has read and that have changed since the run was planned; "" without any."""
        changed, read = self.changed(planned), self.folder.opened(planned.id)
        # What is mounted is not watched.
        code = {each for each in changed if each.endswith(".py") and (read is None or each.startswith("/"))}
        found = code | (changed & (read or frozenset()))
        return listed(sorted(found))

    def _watch(
        self, container: Container, folder: TrialFolder, job: Job, bar: Task, label: str
    ) -> tuple[Exit, tuple[Status, str] | None]:
        """Wait for the trial to end, or the container; kill it if it hangs, takes too long or writes too much.

        Returns:
            The exit, and the trial's status and message if the container was killed.

        Raises:
            Interrupted: the machine is about to end.
        """
        tail = EventTail(folder.events)
        started_s = last_event_s = next_check_s = time.monotonic()
        while True:
            exit_ = container.poll()
            # Read afterwards: what it wrote before its end counts.
            events = tail.read()
            _note_progress(bar, label, events, job.spec.variants)
            end = next((event for event in events if event["kind"] == "exit"), None)
            if end is not None:
                exit_ = Exit(code=end["code"], out_of_memory=exit_.out_of_memory if exit_ else False)
            if exit_ is not None:
                return exit_, _excess(folder, tail, self.max_files)
            if notice := self.announced_end():
                raise self._interrupted(f"The cloud announced that it ends this machine: {notice}.")
            now = time.monotonic()
            if events:
                last_event_s = now
            stopped = self._timeout(now - started_s, now - last_event_s)
            if stopped is not None and container.paused():
                stopped = Status.TIMEOUT, "Somebody paused it. Let it run, and use --resume."
            if stopped is None and now >= next_check_s:
                next_check_s = now + SIZE_CHECK_S
                stopped = _excess(folder, tail, self.max_files)
            if stopped is not None:
                container.kill()
                status, reason = stopped
                return container.poll() or _KILLED, (status, f"{reason} See log.txt for its last output.")
            time.sleep(self.poll_s)

    def _timeout(self, ran_s: float, silent_s: float) -> tuple[Status, str] | None:
        # The driver stops a script that stalls; this is for a driver that stalls itself.
        if silent_s > _DRIVER_TIMES * self.profile.stall_s:
            reason = f"No event for {self.profile.stall_s:g} s; the trial was killed. Raise --stall to wait longer."
        elif ran_s > self.profile.limit_s:
            reason = (
                f"Not finished after {self.profile.limit_s:g} s; the trial was killed. "
                "Measure less, e.g. with --variants baseline,tuned, or choose another --profile."
            )
        else:
            return None
        return Status.TIMEOUT, reason

    def _interrupted(self, message: str = "Interrupted.") -> Interrupted:
        path = shlex.quote(str(self.folder.path))
        return Interrupted(
            message,
            hint=f"Continue with: tfbench bench --resume {path}. On another machine: tfbench rerun {path}",
        )

    def _ended(self, folder: TrialFolder) -> bool:
        """Return whether the container has said that the trial has ended, and so waits for the next."""
        return any(event["kind"] == "exit" for event in EventTail(folder.events).read())


def _name(planned: PlannedTrial) -> str:
    return f"{planned.workload} on {planned.device} {point_words(planned.point)}".strip()


def _plus_minus(width: float) -> str:
    return f"±{width:.0%}" if width <= 1 else "over ±100%"


def _label(number: int, required: int, stopping: Stopping) -> str:
    """Return what a trial is for, and how long the run may still take."""
    if number <= required:
        return f"Trial {number} of {required}"
    widest = f"widest {_plus_minus(stopping.widest)}, " if stopping.widest < math.inf else ""
    return f"Trial {number}, {widest}{stopping.left_s:.0f} s left"


def _continued(job: Job, earlier: Iterable[Trial]) -> Job:
    """Return a job that knows what earlier trials of the same workload and device have found.

    That is which remedies make up tuned, and which may be offered.
    """
    same = [
        each for each in earlier if (each.workload, each.device) == (job.planned.workload, job.planned.device)
    ]
    judged = {name: reason for each in same for name, reason in each.judged.items()}
    found = (
        script.fixes
        for each in same
        for script in each.scripts
        if script.variant == TUNED and script.fixes and not has_any(script.fixes, refused(judged))
    )
    spec = replace(job.spec, tuned=next(found, job.spec.tuned), judged=judged)
    return replace(job, spec=spec)


def _note_progress(
    bar: Task, label: str, events: Iterable[Mapping[str, Any]], variants: Sequence[str]
) -> None:
    """Update the bar for new events. Events of unplanned variants come from the workload itself and are ignored."""
    bar.advance(0)
    for event in events:
        name = str(event.get("variant"))
        if name not in variants and not (STAGE.has(name) or FIX.has(name)):
            continue
        if event["kind"] == "variant":
            bar.note(f"{label}: {event['variant']}")
        elif event["kind"] == "window":
            # A soak is planned in seconds, and its windows are a little shorter or longer.
            soaked = (event["end_ns"] - event["start_ns"]) / 1e9
            bar.advance(soaked if name == SOAK else int(name in variants))
            bar.note(f"{label}: {event['variant']}, window {event['index'] + 1}")
        elif event["kind"] == "requests":
            bar.note(f"{label}: {event['variant']}, requests ({event['scenario']})")


def _excess(folder: TrialFolder, tail: EventTail, max_files: int) -> tuple[Status, str] | None:
    """Return the status and message of a trial that wrote too much, or whose folder or events are gone.

    Other files that disappear meanwhile are ignored.
    """
    out = folder.out.resolve()
    lost = not folder.events.exists() and tail.offset > 0
    if gone := "folder" if not out.is_dir() else "events.jsonl" if lost else "":
        text = f"Somebody removed or moved the trial's {gone}. Leave it there until the run has ended."
        return Status.FAILED, text
    size = number = 0
    with suppress(OSError):
        for path, folders, files, handle in os.fwalk(out, follow_symlinks=False):
            for name in (*folders, *files):
                with suppress(OSError):
                    size += os.stat(name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
            number += len(folders) + len(files)
            limits = {
                f"{OUT_BYTES >> 30} GiB": size <= OUT_BYTES,
                f"{max_files:,} files": number <= max_files,
                f"{OUT_DEPTH} nested folders": len(Path(path).relative_to(out).parts) <= OUT_DEPTH,
            }
            for limit, kept in limits.items():
                if not kept:
                    text = f"The trial wrote more than {limit} into its folder. Write less, or to /tmp."
                    return Status.FAILED, text
    return None
