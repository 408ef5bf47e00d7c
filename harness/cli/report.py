"""`tfbench report`: regenerate the report of a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import Terminal, best_effort, err
from harness.cli.rendering import (
    REPORT_FILES,
    STDOUT,
    NamedRun,
    output_paths,
    read_extracts,
    report_renderers,
    write_outputs,
)
from harness.cli.shared_options import Formats, Price, Target
from harness.run import recording
from harness.run.store import newest_run


def command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a report.html, or a folder of runs (the newest is used).")
    ] = Path("runs"),
    formats: Formats = None,
    price: Price = "",
    target: Target = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            help="A run, report, extract or reference machine of this kind, to compare it with; repeatable."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that the run in a report.html is unaltered.")
    ] = False,
) -> None:
    """Regenerate the report of a run, complete or interrupted. The default formats are HTML and JSON.

    A report.html contains its run and can be used instead of the run folder: `tfbench report report.html
    --format json` extracts the data.
    """  # fmt: skip
    if verify:
        run_id, digest = recording.verify(run)
        typer.echo(f"The embedded run is unaltered: run {run_id}, SHA-256 {digest}")
        typer.echo(
            f"What the page shows was not compared: tfbench report {shlex.quote(str(run))} renders it anew."
        )
        return
    run = newest_run(run)
    folder, files = run, REPORT_FILES
    if run.is_file():
        # Output made from a report file is placed next to it, with the same name.
        suffixes = {name: Path(file).suffix for name, file in files.items()}
        files = {name: f"{run.stem}.{name}".removesuffix(end) + end for name, end in suffixes.items()}
        folder = run.parent
    shipped = recording.references()
    named = [path if path.exists() else shipped.get(str(path), path) for path in reference or ()]
    others = read_extracts([NamedRun(path=path) for path in named], Terminal(err()))
    analysis, renderers = report_renderers(run, price, others)
    paths = output_paths(formats, target, folder, files, inputs=[run], default="html,json")
    write_outputs(renderers, paths)
    if STDOUT not in paths.values():
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        best_effort().print(summary(analysis))
