"""`--metrics-file`: what a run is doing, as text for node_exporter's textfile collector."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import typer

from harness.errors import UsageError
from harness.model.run import Run, Trial
from harness.progress import Progress
from harness.run.store import RunFolder
from reports.exports import MetricSample, openmetrics_text

WRITE_EVERY_S = 1.0


def _prom(path: Path | None) -> Path | None:
    """Reject other names: the collector does not read them, and the file is overwritten."""
    if path and path.suffix != ".prom":
        raise UsageError(f"--metrics-file {path} does not end in .prom.", hint=f"Name it {path.stem}.prom.")
    if path and path.exists() and not path.is_file():
        raise UsageError(
            f"--metrics-file {path} is not a file.", hint="Name one; it is replaced every second."
        )
    return path


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
    path: Path | None, folder: RunFolder, run: Run, progress: Progress, every_s: float = WRITE_EVERY_S
) -> Iterator[Callable[[Trial], None] | None]:
    """Write `path` while the block runs, from a thread of its own; yield what to call with each ended trial.

    A file that cannot be written is reported once and tried again; it never disturbs the run.
    """
    if path is None:
        yield None
        return
    ended = {trial.id: trial for trial in folder.trials(run.planned)}
    stop, failures = threading.Event(), list[Exception]()
    partial = path.with_name(f".{token_hex(8)}.partial")

    def write(*, active: bool) -> None:
        try:
            text = openmetrics_text(_samples(folder, run, tuple(ended.values()), active=active))
            partial.unlink(missing_ok=True)
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
            partial.replace(path)
        except Exception as error:  # no error of this file stops the run
            if not failures:
                failures.append(error)
                reason = getattr(error, "strerror", None) or error
                progress.line(
                    f"Cannot write {path}: {reason}. The run continues without it. Create its folder, or name a "
                    "writable one with --metrics-file."
                )

    def repeat() -> None:
        while not stop.wait(every_s):
            write(active=True)
        write(active=False)

    thread = threading.Thread(target=repeat, name="metrics-file", daemon=True)
    thread.start()
    try:
        yield lambda trial: ended.update({trial.id: trial})
    finally:
        stop.set()
        # The folder may be on a network file system that hangs.
        thread.join(2 * every_s)


def _samples(folder: RunFolder, run: Run, ended: Sequence[Trial], *, active: bool) -> Iterator[MetricSample]:
    """Yield what is known of a run, of which these trials have ended."""
    from harness.analysis.trial_measures import measured  # noqa: PLC0415 - kept off the start

    manifest = run.manifest
    which = {"run_id": manifest.run_id}
    yield "run", {**which, "created": manifest.created, "profile": manifest.profile.name}, 1
    yield "run_active", which, int(active)
    yield "trials_planned", which, sum(trial.index < manifest.profile.trials for trial in run.planned)
    for status, count in Counter(trial.status for trial in ended).items():
        yield "trials_ended", {**which, "status": status.value}, count
    speeds = {
        (trial.workload, trial.device, variant): measure.throughput
        for trial in ended
        if not trial.point
        for variant in dict.fromkeys(window.variant for window in trial.windows)
        for measure in measured([trial], variant)
    }
    for (workload, device, variant), speed in speeds.items():
        labels = {**which, "workload": workload, "device": device, "variant": variant}
        yield "last_samples_per_second", labels, speed
    if not active:
        return
    for planned in run.planned:
        trial_folder = folder.trial(planned.id)
        spec = trial_folder.out / "spec.json"
        if spec.exists() and not trial_folder.record.exists():
            labels = {**which, "trial": planned.id, "workload": planned.workload, "device": planned.device}
            yield "trial_seconds", labels, time.time() - spec.stat().st_mtime
