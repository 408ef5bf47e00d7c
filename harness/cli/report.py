"""`tfbench report`: regenerate the report of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import out
from harness.cli.output_files import STDOUT, output_paths, write_outputs
from harness.cli.render_report import FILES, report_texts
from harness.cli.shared_options import Formats, Price, Target
from harness.run.store import newest_run


def command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a report.html, or a folder of runs (the newest is used).")
    ] = Path("runs"),
    formats: Formats = None,
    price: Price = "",
    target: Target = None,
) -> None:
    """Regenerate the report of a run, complete or interrupted. The default formats are HTML and JSON.

    A report.html contains its run and can be used instead of the run folder: `tfbench report report.html
    --format json` extracts the data.
    """  # fmt: skip
    run = newest_run(run)

    def path_in(folder: Path | None, format_name: str) -> Path:
        # Output made from a report file is placed next to it, with the same name.
        if run.is_file():
            return (folder or run.parent) / f"{run.stem}.{format_name}"
        return (folder or run) / FILES[format_name]

    paths = output_paths(formats, target, path_in, inputs=[run], default="html,json")
    analysis, texts = report_texts(run, tuple(paths), price)
    write_outputs(texts, paths)
    if STDOUT not in paths.values():
        from reports.terminal import summary  # noqa: PLC0415 - kept off the way to the first training step

        out().print(summary(analysis))
