"""`tfbench bench`: run the workloads and write the report; also what other commands that measure share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import failure
from harness.cli.console import Terminal, best_effort, err, show_error
from harness.cli.metrics_file import MetricsFile, live_metrics
from harness.cli.rendering import (
    NO_STANDARDS,
    REPORT_FILES,
    Standards,
    raise_for_limits,
    read_standards,
    report_renderers,
    without_effect,
    write_outputs,
)
from harness.cli.shared_options import Accept, References, Resume, Yes, takes_options
from harness.engines import used_engine
from harness.errors import Interrupted, TfbenchError, TrialError, UnhealthyError, UsageError
from harness.model.analysis import Analysis
from harness.model.platform import Level
from harness.model.run import PlannedTrial, Run, Trial
from harness.options import Options
from harness.paths import paths_here
from harness.run.prepare import Prepared, execute, prepare, resume
from harness.run.resolve import resolve
from harness.run.started import identity, is_own
from harness.run.store import RunFolder, read_run
from harness.secrets import recorded_command
from harness.untrusted import printable
from harness.wording import counted

Unhealthy = Annotated[
    bool,
    typer.Option("--fail-if-unhealthy", help="Exit with code 12 if a health check of the machine fails."),
]


@takes_options()
def command(
    options: Options,
    resume_run: Resume = None,
    yes: Yes = False,
    fail_if_unhealthy: Unhealthy = False,
    accept: Accept = None,
    reference: References = None,
    metrics_file: MetricsFile = None,
) -> None:
    """Run workloads in containers, sample the host, and write one report.

    Finished trials and their report are always kept. Exit codes: 0 success, 2 usage, 3 engine, 4 image,
    5 a trial failed, 6 disk, 7 another run is active, 8 GPU, 9 data, 12 unhealthy, 13 a limit of --accept
    is missed, 14 one is undecided, 130 interrupted.
    """  # fmt: skip
    progress = Terminal(err())
    standards = read_standards(reference, accept)
    if resume_run:
        recorded = read_run(resume_run)
        _check_planned(standards, recorded.planned)
        if recorded.ended and not any(trial.failed for trial in recorded.trials):
            folder = RunFolder(resume_run)
            with live_metrics(metrics_file, folder, recorded, progress):
                _finish(folder, (), progress, fail_if_unhealthy=fail_if_unhealthy, standards=standards)
            return
        if not is_own(identity(recorded.manifest), paths_here()):
            _ask(recorded, progress, allowed=yes)
        prepared = resume(resume_run, paths_here(), progress)
    else:
        plan = resolve(options)
        _check_planned(standards, plan.planned)
        prepared = prepare(plan, paths_here(), progress, command=command_line())
    measure(
        prepared,
        progress,
        fail_if_unhealthy=fail_if_unhealthy,
        standards=standards,
        metrics_file=metrics_file,
    )


def _ask(run: Run, progress: Terminal, *, allowed: bool) -> None:
    """Print what a run folder of others uses, and ask the user to allow it unless it is allowed.

    Raises:
        UsageError: the user declines, or standard input is not a terminal.
    """
    # Imported late, as it brings in what only a run of others needs.
    from harness.run.repeat import requested_resources  # noqa: PLC0415

    options = replace(run.manifest.options, engine=used_engine(run.manifest.engine))
    requested = requested_resources(run, options)
    for name, value in requested.items():
        progress.line(f"The run uses {name} {value}")
    if requested and not allowed:
        confirm(requested)


def confirm(requested: Mapping[str, str]) -> None:
    """Ask the user to allow what a run uses, because runs may come from untrusted sources.

    Raises:
        UsageError: the user declines, or standard input is not a terminal.
    """
    if not (sys.stdin.isatty() and typer.confirm("Allow this?", err=True)):
        listed = ", ".join(f"{name} {value}" for name, value in requested.items())
        raise UsageError(f"It uses {listed}.", hint="Allow this with --yes.")


def _check_planned(standards: Standards, planned: Sequence[PlannedTrial]) -> None:
    if standards.limits:
        # Imported late, because it brings in the analysis.
        from harness.run.limits import check_planned  # noqa: PLC0415

        check_planned(standards.limits, planned)


def command_line() -> str:
    """Return the command line as entered by the user, without secrets."""
    return printable(shlex.join(["tfbench", *recorded_command(sys.argv[1:])]))


def measure(
    prepared: Prepared,
    progress: Terminal,
    *,
    fail_if_unhealthy: bool = False,
    standards: Standards = NO_STANDARDS,
    metrics_file: Path | None = None,
) -> None:
    """Run the trials, then write and print the report, even if the run ends early.

    Raises:
        TfbenchError: the run ended early, a trial failed, or (if asked) a health check did or a limit is not met.
    """
    try:
        with live_metrics(metrics_file, prepared.folder, prepared.run, progress) as on_trial_end:
            trials = execute(prepared, progress, on_trial_end)
    except TfbenchError:
        try:
            if prepared.folder.exists():
                _write_report(prepared.folder, standards)
        except Exception as error:  # must not hide why the run ended
            show_error(failure(error))
        raise
    _finish(prepared.folder, trials, progress, fail_if_unhealthy=fail_if_unhealthy, standards=standards)


def _finish(
    folder: RunFolder,
    trials: Sequence[Trial],
    progress: Terminal,
    *,
    fail_if_unhealthy: bool,
    standards: Standards,
) -> None:
    """Write and print the report of a run that has ended, of which these trials ran now.

    Raises:
        TfbenchError: a trial failed, or (if asked) a health check did or a limit is not met.
    """
    if not trials:
        progress.line("All trials had already finished; regenerating the report.")
    analysis = _write_report(folder, standards)
    raise_for_trials({trial.id: trial for trial in trials})
    if fail_if_unhealthy:
        raise_for_health(analysis)
    raise_for_limits(analysis)


def raise_for_health(analysis: Analysis) -> None:
    """Raise UnhealthyError if a health check failed."""
    failed = [f"{item.check.value} of {item.device}" for item in analysis.health if item.level is Level.FAIL]
    if failed:
        raise UnhealthyError(
            f"The machine is not healthy: {', '.join(failed)}.",
            hint="See the section Machine of the report for what to do.",
        )


def _write_report(folder: RunFolder, standards: Standards) -> Analysis:
    """Write the report of all finished trials, and print its summary."""
    try:
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        analysis, renderers = report_renderers(folder.path, standards=standards)
        write_outputs(renderers, {form: folder.path / REPORT_FILES[form] for form in ("json", "html")})
        best_effort().print(summary(analysis))
        if reason := without_effect(analysis, standards):
            best_effort().print(reason)
    except KeyboardInterrupt as error:
        raise Interrupted(
            "Interrupted while writing the report; the trials are kept.",
            hint=f"Write it with: tfbench report {shlex.quote(str(folder.path))}",
        ) from error
    return analysis


def raise_for_trials(trials: Mapping[str, Trial]) -> None:
    """Raise TrialError if a trial failed; `trials` has them by name."""
    failed = {name: trial.message for name, trial in trials.items() if trial.failed}
    if failed:
        first, message = next(iter(failed.items()))
        raise TrialError(
            f"{len(failed)} of {counted(len(trials), 'trial')} failed, first {first}: {message}",
            hint="See log.txt in the trial's folder."
            + (" The report shows the others." if len(failed) < len(trials) else ""),
        )
