"""`tfbench bench`: run the workloads and write the report."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import Terminal, err
from harness.cli.metrics_file import MetricsFile
from harness.cli.run_trials import command_line, measure, stop_on_signals
from harness.cli.shared_options import Resume, check_resume, takes_options
from harness.model.run import Options
from harness.paths import paths_here
from harness.run.prepare import prepare, resume
from harness.run.resolve import resolve

Unhealthy = Annotated[
    bool,
    typer.Option("--fail-if-unhealthy", help="Exit with code 12 if a health check of the machine fails."),
]


@takes_options()
def command(
    options: Options,
    resume_run: Resume = None,
    fail_if_unhealthy: Unhealthy = False,
    metrics_file: MetricsFile = None,
) -> None:
    """Run workloads in containers, sample the host, and write one report.

    Finished trials and their report are always kept. Exit codes: 0 success, 2 usage, 3 engine, 4 image,
    5 a trial failed, 6 disk, 7 another run is active, 8 GPU, 9 data, 12 unhealthy, 130 interrupted.
    """  # fmt: skip
    progress = Terminal(err())
    with stop_on_signals():
        if resume_run:
            check_resume(options)
            prepared = resume(resume_run, paths_here(), progress)
        else:
            prepared = prepare(resolve(options), paths_here(), progress, command=command_line())
        measure(prepared, progress, fail_if_unhealthy=fail_if_unhealthy, metrics_file=metrics_file)
