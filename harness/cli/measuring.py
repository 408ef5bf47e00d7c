"""From a prepared run to its report: what every command that measures does alike."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from harness.cli.console import Terminal, err, out, show_error
from harness.cli.run_report import FILES, report_texts
from harness.errors import Interrupted, StoreError, TfbenchError, TrialError
from harness.model.run import Status, Trial
from harness.rounding import counted
from harness.run.prepare import Prepared, execute
from harness.run.store import RunFolder, write_whole

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def measure(prepared: Prepared, progress: Terminal, *, as_json: bool, quiet: bool) -> None:
    """Run the trials, write the report of what there is whatever happens, and show it.

    Raises:
        TfbenchError: why the run ended early, or that a trial failed.
    """
    _announce(progress, prepared)
    failure: TfbenchError | None = None
    records: Sequence[Trial] = ()
    try:
        records = execute(prepared, progress)
    except TfbenchError as error:
        failure = error
    if failure is None and not records:
        progress.line("All trials of this run had finished; writing its report again.")
    if prepared.folder.exists():
        try:
            _conclude(prepared.folder, failure, as_json=as_json, quiet=quiet)
        except KeyboardInterrupt as error:
            raise Interrupted(
                "Stopped while the report was written; the trials are kept.",
                hint=f"Write it with: tfbench report {prepared.folder.path}",
            ) from error
    if failure is not None:
        raise failure
    # Running out of memory is a result of a point of a sweep.
    points = {planned.id for planned in prepared.resolved.planned if planned.point}
    raise_for_trials(
        {
            record.id: (record.status, record.message)
            for record in records
            if record.status is not Status.OUT_OF_MEMORY or record.id not in points
        }
    )


def _announce(progress: Terminal, prepared: Prepared) -> None:
    engine = prepared.manifest.engine
    if engine.isolated:
        progress.line(f"Engine: {engine.name} {engine.version}")
    else:
        progress.line("Engine: local. NOTHING IS ISOLATED: no container engine is used, so the workloads run")
        progress.line("as plain processes beside everything else here. For containers: make engine")
    progress.line(f"Run folder: {prepared.folder.path}")


def _conclude(folder: RunFolder, failure: TfbenchError | None, *, as_json: bool, quiet: bool) -> None:
    """Write the report of what there is; a failure to do so must not hide why the run itself failed."""
    try:
        analysis, texts = report_texts(folder.path, ("json", "html"))
        written = {form: write_whole(folder.path / FILES[form], text) for form, text in texts.items()}
    except StoreError as error:
        if failure is None:
            raise
        show_error(err(), error)
        return
    if as_json:
        out().print_json(texts["json"])
        return
    if not quiet:
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        out().print(summary(analysis))
    out().print(f"Report: {written['html'].resolve()}", soft_wrap=True)


def raise_for_trials(ended: Mapping[str, tuple[Status, str]]) -> None:
    """Raise for trials that did not go well.

    Args:
        ended: each trial's name -> how it ended, and the message.

    Raises:
        TrialError: at least one did not.
    """
    failed = {name: message for name, (status, message) in ended.items() if status is not Status.OK}
    if failed:
        first, message = next(iter(failed.items()))
        raise TrialError(
            f"{len(failed)} of {counted(len(ended), 'trial')} failed, first {first}: {message}",
            hint="The report has the others. See log.txt in the trial's folder.",
        )


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into `Interrupted`, which ends the run.

    A second signal must not interrupt the cleanup: after the first one the process ignores them until
    it ends. Signals that are ignored already, as under nohup, stay ignored.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> Any:
        nonlocal stopped
        stopped = True
        for watched in before:
            signal.signal(watched, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: old for number in _STOPPING if (old := signal.getsignal(number)) != signal.SIG_IGN}
    for watched in before:
        signal.signal(watched, stop)
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("Stopped.", hint="Run the same command again.") from error
    finally:
        if not stopped:
            for number, handler in before.items():
                signal.signal(number, handler)
