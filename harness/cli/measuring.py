"""From a prepared run to its report: what every command that measures does alike."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from harness.cli.console import Terminal, out, show_error
from harness.cli.run_report import FILES, report_texts
from harness.errors import Interrupted, StoreError, TfbenchError, TrialError
from harness.model.run import Status
from harness.rounding import counted
from harness.run.prepare import Prepared, execute
from harness.run.store import RunFolder, write_whole
from harness.untrusted import printable

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def command_line() -> str:
    """Return the command as the user gave it."""
    return printable(shlex.join(["tfbench", *sys.argv[1:]]))


def measure(prepared: Prepared, progress: Terminal) -> None:
    """Run the trials, write the report of what there is whatever happens, and show it.

    Raises:
        TfbenchError: why the run ended early, or that a trial failed.
    """
    progress.line(f"Run folder: {prepared.folder.path}")
    try:
        trials = execute(prepared, progress)
    except TfbenchError:
        try:
            if prepared.folder.exists():
                _conclude(prepared.folder)
        except StoreError as error:  # which must not hide why the run ended
            show_error(error)
        raise
    if not trials:
        progress.line("All trials of this run had finished; writing its report again.")
    _conclude(prepared.folder)
    # Running out of memory is a result of a point of a sweep.
    points = {planned.id for planned in prepared.resolved.planned if planned.point}
    raise_for_trials(
        {
            trial.id: (trial.status, trial.message)
            for trial in trials
            if trial.status is not Status.OUT_OF_MEMORY or trial.id not in points
        }
    )


def _conclude(folder: RunFolder) -> None:
    """Write the report of what there is, and show it."""
    try:
        analysis, texts = report_texts(folder.path, ("json", "html"))
        written = {form: write_whole(folder.path / FILES[form], text) for form, text in texts.items()}
    except KeyboardInterrupt as error:
        raise Interrupted(
            "Stopped while the report was written; the trials are kept.",
            hint=f"Write it with: tfbench report {folder.path}",
        ) from error
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

    def stop(number: int, frame: FrameType | None) -> None:
        for watched in _STOPPING:
            signal.signal(watched, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in _STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("Stopped.", hint="Run the same command again.") from error
