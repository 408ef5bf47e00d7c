"""`tfbench report`: render a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import app
from harness.cli.console import out
from harness.cli.output import deliver, destination
from harness.cli.run_report import newest, path_in, report_texts
from harness.cli.shared_options import Formats, Price, Target


@app.command()
def report(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a report.html, or a folder of runs (the newest is used).")
    ] = Path("runs"),
    formats: Formats = None,
    price: Price = "",
    target: Target = None,
) -> None:
    """Write a run's report again, also of an interrupted run. The default formats are HTML and JSON.

    A report.html contains its run and works like the run folder: `tfbench report report.html --format json`
    extracts the data.
    """  # fmt: skip
    run = newest(run)
    to = destination(formats, target, "html,json")
    wanted = {form: to.file or path_in(run, to.folder, form) for form in to.formats}
    analysis, texts = report_texts(run, to.formats, price)
    deliver(texts, to, lambda form: wanted[form])
    if not to.printed:
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        out().print(summary(analysis))
