"""`tfbench sweep`: measure a workload over a grid of its parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from harness.cli.app import app, command_line, paths
from harness.cli.console import Terminal, err
from harness.cli.measuring import measure, stoppable
from harness.cli.shared_options import Json, Quiet, Resume, takes_options
from harness.errors import UsageError
from harness.model.options import Options
from harness.run.prepare import Prepared, prepare, resume
from harness.run.resolve import resolve
from workloads.protocol import BASELINE

_HINT = "For example: tfbench sweep cifar100-mlp --param batch_size=32,64,128"


@app.command()
@takes_options(without=("workloads", "analysis", "price"), changed={"variants": BASELINE})
def sweep(
    options: Options,
    workload: Annotated[
        str | None, typer.Argument(help="The workload to sweep; `tfbench list NAME` shows its parameters.")
    ] = None,
    resume_run: Resume = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a workload at every combination of parameter values, and find the fastest.

    tfbench sweep cifar100-mlp --param batch_size=32,64,128 --param steps_per_execution=1,10,50

    Trials are interleaved and kept, and exit codes are as in `tfbench bench`; running out of memory is a result
    of a point, not a failure. --resume continues an interrupted sweep.
    """  # fmt: skip
    progress = Terminal(err(), quiet=quiet)
    with stoppable():
        if resume_run:
            prepared = resume(resume_run, paths(), progress)
        else:
            options = replace(options, workloads=(workload,) if workload else ())
            _check(options)
            prepared = prepare(resolve(options), paths(), progress, command=command_line())
            _announce(prepared, progress)
        measure(prepared, progress, as_json=as_json, quiet=quiet)


def _check(options: Options) -> None:
    count = len(options.workloads) + len(options.files)
    if count != 1 or "all" in options.workloads:
        raise UsageError(
            "A sweep needs exactly one workload." if count else "No workload to sweep.",
            hint=f"Choose one from `tfbench list`. {_HINT}",
        )
    if not options.axes:
        raise UsageError("No parameter has several values.", hint=_HINT)


def _announce(prepared: Prepared, progress: Terminal) -> None:
    planned = prepared.resolved.planned
    points = len(dict.fromkeys(trial.point for trial in planned))
    devices = dict.fromkeys(trial.device for trial in planned)
    least, most = prepared.resolved.profile.trials, prepared.resolved.profile.max_trials
    trials = f"{least} to {most}" if most > least else f"{least}"
    progress.line(f"Sweep: {points} points on {', '.join(devices)}; trials of each: {trials}")
