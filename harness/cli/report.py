"""`tfbench report`: render a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import Price, app, out
from harness.cli.console import show_summary
from harness.cli.destinations import PRINTED, destination
from harness.cli.pages import wanted_of
from harness.cli.rendering import FILES, newest, report_in, targets, write_reports


@app.command()
def report(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a report.html, or the folder of runs for its newest.")
    ] = Path("runs"),
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help=f"{', '.join(FILES)}; comma-separated.", show_default="html,json"
        ),
    ] = None,
    price: Price = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder to write into, one file as x.html, or - to print one format. "
            "Default: the run's, or beside the report.",
        ),
    ] = None,
) -> None:
    """Make a run's report again from its recorded data; also of a run that was cut off.

    A report.html has its run inside and stands for the run folder: `tfbench report report.html --format json`
    gets the data back out.
    """  # fmt: skip
    path = newest(run)
    if folder is not None and str(folder) == PRINTED:
        (form,) = wanted_of(formats, PRINTED, tuple(FILES)).formats
        typer.echo(report_in(form, path, price=price), nl=False)
        return
    wanted = destination(formats, folder, tuple(FILES), "html,json")
    places = targets(path, wanted.formats, folder, wanted.file)
    analysis = write_reports(path, places, price=price)
    for name, written in places.items():
        out().print(f"{name}: {written.resolve()}", soft_wrap=True)
    show_summary(out(), analysis)
