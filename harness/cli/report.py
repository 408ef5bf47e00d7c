"""`tfbench report`: render a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import out
from harness.cli.output import PRINTED, deliver, destinations
from harness.cli.run_report import FILES, newest, report_texts
from harness.cli.shared_options import Formats, Price, Target


def command(
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

    def path_in(folder: Path | None, form: str) -> Path:
        # What is made of a report file lies beside it and has its name.
        return (
            (folder or run.parent) / f"{run.stem}.{form}" if run.is_file() else (folder or run) / FILES[form]
        )

    paths = destinations(formats, target, path_in, inputs=[run], usual="html,json")
    analysis, texts = report_texts(run, tuple(paths), price)
    deliver(texts, paths)
    if PRINTED not in paths.values():
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        out().print(summary(analysis))
