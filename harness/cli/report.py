"""`tfbench report`: regenerate the report of a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import best_effort
from harness.cli.rendering import (
    REPORT_FILES,
    STDOUT,
    output_paths,
    raise_for_limits,
    read_standards,
    report_renderers,
    without_effect,
    write_outputs,
)
from harness.cli.shared_options import Accept, Formats, Price, References, Target
from harness.errors import UsageError
from harness.run import recording
from harness.run.store import newest_run


def command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a report.html, or a folder of runs (the newest is used).")
    ] = Path("runs"),
    formats: Formats = None,
    price: Price = "",
    target: Target = None,
    accept: Accept = None,
    reference: References = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that the run in a report.html is unaltered.")
    ] = False,
) -> None:
    """Regenerate the report of a run, complete or interrupted. The default formats are HTML and JSON.

    A report.html contains its run and can be used instead of the run folder: `tfbench report report.html
    --format json` extracts the data. With --accept the exit code is 13 if a limit is missed, and 14 if none is missed
    but some are undecided or not measured.
    """  # fmt: skip
    if verify:
        run_id, digest = recording.verify(run)
        typer.echo(f"The embedded run is unaltered: run {run_id}, SHA-256 {digest}")
        again = f"tfbench report {shlex.quote(str(run))} -o again.html"
        typer.echo(f"What the page shows was not compared: {again} renders it anew.")
        return
    standards = read_standards(reference, accept)
    run = newest_run(run)
    folder, files = run, REPORT_FILES
    if run.is_file():
        # Output made from a report file is placed next to it, with the same name.
        suffixes = {name: Path(file).suffix for name, file in files.items()}
        files = {name: f"{run.stem}.{name}".removesuffix(end) + end for name, end in suffixes.items()}
        folder = run.parent
    analysis, renderers = report_renderers(run, price, standards)
    if reason := without_effect(analysis, standards):
        raise UsageError(reason, hint="Leave it out; `tfbench compare` compares runs of different machines.")
    paths = output_paths(formats, target, folder, files, inputs=[run], default="html,json")
    if "junit" in paths and accept is None:
        raise UsageError(
            "The format junit needs limits.", hint="Give them with --accept limits.toml; see docs/limits.md."
        )
    write_outputs(renderers, paths, target)
    if STDOUT not in paths.values():
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        best_effort().print(summary(analysis))
    raise_for_limits(analysis)
