"""`--metrics-file`: what a run is doing, as text for node_exporter's textfile collector."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError
from harness.model.run import PlannedTrial, Status, Trial
from harness.progress import Progress
from harness.run.prepare import Prepared
from harness.telemetry.metric_kinds import BIT_MASKS, COUNTERS
from reports.exports import Sample, openmetrics_text

WRITE_EVERY_S = 1.0
# A GPU that was lost must not look as it did before.
_STALE_NS = 10_000_000_000
_TAIL_BYTES = 4096


def _prom(path: Path | None) -> Path | None:
    """Reject other names: the collector does not read them, and the file is overwritten."""
    if path is None or path.suffix == ".prom":
        return path
    raise UsageError(f"--metrics-file {path} does not end in .prom.", hint=f"Name it {path.stem}.prom.")


MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        callback=_prom,
        help="Write the state of the run to this .prom file every second, for node_exporter.",
    ),
]


@contextmanager
def live_metrics(
    path: Path | None, prepared: Prepared, progress: Progress, every_s: float = WRITE_EVERY_S
) -> Iterator[Callable[[Trial], None] | None]:
    """Write `path` while the block runs, from a thread of its own; yield what to call with each ended trial.

    A file that cannot be written is reported once and tried again; it never disturbs the run.
    """
    if path is None:
        yield None
        return
    state, stop = _State(prepared), threading.Event()
    failures: list[Exception] = []
    partial = path.with_name(f".{path.name}.partial")

    def write(*, active: bool) -> None:
        try:
            text = openmetrics_text(state.samples(active=active))
            partial.unlink(missing_ok=True)
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
            partial.replace(path)
        except Exception as error:  # whatever it is, the run goes on
            if not failures:
                failures.append(error)
                progress.line(
                    f"Cannot write {path}: {error}. The run goes on without it. Create its folder, or name a "
                    "writable one with --metrics-file."
                )

    def run() -> None:
        while not stop.wait(every_s):
            write(active=True)
        write(active=False)

    thread = threading.Thread(target=run, name="metrics-file", daemon=True)
    thread.start()
    try:
        yield state.add
    finally:
        stop.set()
        # The folder may be on a network file system that hangs.
        thread.join(2 * every_s)


class _State:
    """What is known of a run while it runs."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._planned = tuple(job.planned for job in prepared.jobs)
        self._statuses: dict[str, Status] = {}
        self._speeds: dict[tuple[str, str, str], float] = {}
        self._current: tuple[str, float] = ("", 0.0)
        if prepared.folder.exists():
            for trial in prepared.folder.trials(self._planned):
                self.add(trial)

    def add(self, trial: Trial) -> None:
        """Note a trial that has ended."""
        from harness.analysis.trial_measures import measure_of  # noqa: PLC0415 - kept off the start

        self._statuses = {**self._statuses, trial.id: trial.status}
        measured = dict.fromkeys(window.variant for window in trial.windows)
        speeds = {
            (trial.workload, trial.device, variant): measure.throughput
            for variant in measured
            if trial.status is Status.OK and not trial.point and (measure := measure_of(trial, variant))
        }
        self._speeds = {**self._speeds, **speeds}

    def samples(self, *, active: bool) -> Iterator[Sample]:
        manifest = self._prepared.manifest
        run = {"run_id": manifest.run_id}
        yield "run", {**run, "created": manifest.created, "profile": manifest.profile.name}, 1
        yield "run_active", run, int(active)
        yield "trials_planned", run, sum(each.index < manifest.profile.trials for each in self._planned)
        for status, count in Counter(self._statuses.values()).items():
            yield "trials_ended", {**run, "status": status.value}, count
        for (workload, device, variant), speed in self._speeds.items():
            labels = {**run, "workload": workload, "device": device, "variant": variant}
            yield "last_samples_per_second", labels, speed
        trial = self._running() if active else None
        if trial is None:
            return
        if self._current[0] != trial.id:
            self._current = (trial.id, time.monotonic())
        labels = {**run, "trial": trial.id, "workload": trial.workload, "device": trial.device}
        yield "trial_seconds", labels, time.monotonic() - self._current[1]
        for path in sorted(self._prepared.folder.trial(trial.id).telemetry.glob("nvml-*.csv")):
            for metric, value in _last_row(path).items():
                yield metric, {**run, "device": path.stem.removeprefix("nvml-")}, value

    def _running(self) -> PlannedTrial | None:
        """Return the trial that has begun and not ended; they run in order."""
        folders = ((each, self._prepared.folder.trial(each.id)) for each in self._planned)
        return next(
            (each for each, folder in folders if folder.path.exists() and not folder.record.exists()), None
        )


def _last_row(path: Path) -> dict[str, float]:
    """Return the gauges of the last complete row of a telemetry file; {} if it is old, or there is none."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        names = file.readline().decode().strip().split(",")
        file.seek(max(file.tell(), path.stat().st_size - _TAIL_BYTES))
        rows = file.read().decode().rpartition("\n")[0]
        cells = dict(zip(names, rows.rpartition("\n")[2].split(","), strict=True))
        if time.monotonic_ns() - int(cells.pop("t_ns")) < _STALE_NS:
            kept = cells.keys() - COUNTERS - BIT_MASKS
            return {name: float(cells[name]) for name in names if name in kept and cells[name]}
    return {}
