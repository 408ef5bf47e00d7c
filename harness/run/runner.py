"""Run the planned trials one after another: start, sample, watch, persist."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.defaults import OUT_BYTES, POLL_S, WEIGH_S, Profile
from harness.engines import Container, ContainerSpec, Engine, Exit
from harness.errors import EngineError, Interrupted
from harness.model.run import PlannedTrial, Status, Trial
from harness.progress import Progress, Task
from harness.run.clocks import clock_gap
from harness.run.events import EventTail, read_log
from harness.run.outcome import judge
from harness.run.stopping import Stopping
from harness.run.store import RunFolder, TrialFolder
from harness.telemetry import Source, Target
from harness.telemetry.sampler import Sampling, sample
from workloads.protocol import Spec, boot_id

_KILLED = Exit(code=-9, out_of_memory=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that it takes to run one planned trial: `container.out` is filled in when it starts.

    `gpus` maps the trial's device names ("gpu0") to the UUIDs by which NVML knows them.
    """

    planned: PlannedTrial
    spec: Spec
    container: ContainerSpec
    gpus: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Run jobs on an engine and keep every one in the run folder the moment it has ended.

    Attributes:
        sources: makes the telemetry sources of one trial.
        interval_s: the sampler's period, 0 for no sampling.
        poll_s: time between two looks at a container.
        ended: called with each trial once its folder is complete.
    """

    engine: Engine
    folder: RunFolder
    profile: Profile
    sources: Callable[[], Sequence[Source]]
    interval_s: float
    progress: Progress
    poll_s: float = POLL_S
    ended: Callable[[Trial], None] | None = None

    def run(self, jobs: Sequence[Job]) -> tuple[Trial, ...]:
        """Run the jobs in order, those the stopping rule wants; return all that ran.

        Raises:
            EngineError: the engine was lost; the trial under way is recorded as such, the rest never ran.
            Interrupted: the user wants to stop; the same.
            StoreError: nothing can be written any more.
        """
        stopping = Stopping(self.profile)
        before = self.folder.ended()
        trials: list[Trial] = []
        with self.progress.task("Trials", sum(map(self._windows, jobs))) as bar:
            for job in jobs:
                part = _Part(bar, self._windows(job))
                earlier = before.get(job.planned.id)
                if earlier and earlier.status is Status.OK:
                    stopping.took(job.planned, earlier)
                elif stopping.wants(job.planned):
                    trials.append(self._run_trial(job, part))
                    stopping.took(job.planned, trials[-1])
                part.advance(math.inf)
        self.folder.close(stopping.stops())
        return tuple(trials)

    def _narrows(self, planned: PlannedTrial) -> bool:
        """Return whether a trial only narrows an interval: it may not run."""
        return planned.index >= self.profile.trials

    def _windows(self, job: Job) -> int:
        """Return how many windows of a trial the bar counts."""
        return 0 if self._narrows(job.planned) else len(job.spec.variants) * job.spec.windows

    def _run_trial(self, job: Job, bar: Task) -> Trial:
        planned = job.planned
        folder = self.folder.open_trial(planned, job.spec)
        narrowing = ", until the interval is narrow" if self._narrows(planned) else ""
        at = "".join(f" {name}={value}" for name, value in planned.point)
        what = f"{planned.workload} on {planned.device}{at}, trial {planned.index + 1}{narrowing}"
        bar.note(what)
        started_ns = time.monotonic_ns()
        clocks = {"boot_id": boot_id(), "wall_ns": time.time_ns(), "t_ns": started_ns}
        container: Container | None = None
        exit_: Exit | None = None
        stopped: tuple[Status, str] | None = None
        sampling = Sampling()
        cause: BaseException | None = None
        try:
            container = self.engine.start(replace(job.container, out=folder.out))
            target = Target(pid=container.pid, gpus=job.gpus)
            with sample(self.sources(), target, folder.telemetry, self.interval_s) as sampling:
                exit_, stopped = self._watch(container, folder, job, bar, what)
        except (EngineError, KeyboardInterrupt) as error:
            cause = error
        finally:
            log_text = self._clear_away(container)
        log = read_log(folder.events)
        status, message = stopped or judge(exit_, log, cause, job.container.memory_bytes, planned.variants)
        ended_ns = time.monotonic_ns()
        trial = replace(
            planned.trial(status, message),
            exit_code=exit_.code if exit_ else None,
            started_ns=started_ns,
            ended_ns=ended_ns,
            gaps=(*sampling.gaps, *clock_gap(clocks, log.start, started_ns, ended_ns)),
            sampling=sampling.cost,
            **log.parts(),
        )
        self.folder.close_trial(trial, log_text)
        if self.ended is not None:
            self.ended(trial)
        if status is not Status.OK:
            self.progress.line(f"{planned.id}: {status.value}. {message}")
        if isinstance(cause, EngineError):
            raise cause
        if cause is not None:
            raise Interrupted(
                "Stopped before all trials had run.",
                hint=f"Continue with: tfbench bench --resume {self.folder.path}",
            ) from cause
        return trial

    def _watch(
        self, container: Container, folder: TrialFolder, job: Job, bar: Task, what: str
    ) -> tuple[Exit, tuple[Status, str] | None]:
        """Wait for the container's end, and end it when it hangs, takes too long or writes too much.

        Returns:
            How it ended, and the trial's status and why where it was ended here.
        """
        tail = EventTail(folder.events)
        begun = heard = weigh_at = time.monotonic()
        while True:
            exit_ = container.poll()
            events = tail.read()
            _note_progress(bar, what, events, job.spec.variants)
            if exit_ is not None:
                return exit_, None
            now = time.monotonic()
            if events:
                heard = now
            stopped = self._overdue(now - begun, now - heard)
            if stopped is None and now >= weigh_at:
                weigh_at = now + WEIGH_S
                if _folder_bytes(folder.out) > OUT_BYTES:
                    limit = f"{OUT_BYTES >> 30} GiB"
                    stopped = Status.FAILED, f"It wrote more than {limit} into its folder, so it was stopped."
            if stopped is not None:
                container.kill()
                status, why = stopped
                return container.poll() or _KILLED, (status, f"{why} See log.txt for its last output.")
            time.sleep(self.poll_s)

    def _overdue(self, ran_s: float, silent_s: float) -> tuple[Status, str] | None:
        if silent_s > self.profile.stall_s:
            why = f"No event for {self.profile.stall_s:g} s, so it was stopped. Raise --stall to wait longer."
        elif ran_s > self.profile.limit_s:
            why = (
                f"Not done after {self.profile.limit_s:g} s, so it was stopped. "
                "Measure less, as with --variants baseline,tuned, or choose another --profile."
            )
        else:
            return None
        return Status.TIMEOUT, why

    def _clear_away(self, container: Container | None) -> str:
        """Kill and remove the container and return its log, whatever state the engine is in."""
        if container is None:
            return ""
        log = ""
        with suppress(EngineError):
            container.kill()
        with suppress(EngineError):
            log = container.log()
        with suppress(EngineError):
            container.remove()
        return log


class _Part:
    """A trial's part of the bar, `left` of it: a trial that measures less leaves none of it out."""

    def __init__(self, bar: Task, left: float) -> None:
        self._bar = bar
        self._left = left

    def advance(self, amount: float) -> None:
        """Move on, at most to the end of the part."""
        amount = min(amount, self._left)
        self._left -= amount
        self._bar.advance(amount)

    def note(self, text: str) -> None:
        """Show `text` beside the bar."""
        self._bar.note(text)


def _note_progress(
    bar: Task, what: str, events: Iterable[Mapping[str, Any]], variants: Sequence[str]
) -> None:
    """Report that the trial goes on, which variant begins, and which window or series of requests ended.

    Events of other variants come from the workload itself and are ignored.
    """
    bar.advance(0)
    for event in events:
        if event.get("variant") not in variants:
            continue
        if event["kind"] == "variant":
            bar.note(f"{what}: {event['variant']}")
        elif event["kind"] == "window":
            bar.advance(1)
            bar.note(f"{what}: {event['variant']}, window {event['index'] + 1}")
        elif event["kind"] == "requests":
            bar.note(f"{what}: {event['variant']}, requests ({event['scenario']})")


def _folder_bytes(folder: Path) -> int:
    """Return what a folder takes on disk; what goes away meanwhile takes nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(Path(path, name)).st_blocks * 512
    return total
