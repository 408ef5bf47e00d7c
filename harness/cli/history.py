"""`tfbench history`: the speeds of many runs through time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness import __version__
from harness.cli import options as given
from harness.cli.app import Quiet, app, err, out, places
from harness.cli.console import Terminal
from harness.cli.destinations import PRINTED
from harness.cli.gather import Named, gather, narrowed, runs_under
from harness.cli.options import split
from harness.cli.pages import deliver, in_formats, show, wanted_of
from harness.errors import StoreError
from harness.extracts import Cache
from harness.model.history import History, Skipped

FORMATS = ("html", "md", "json", "csv")
NAME = "history"


@app.command()
def history(
    folder: Annotated[
        Path, typer.Argument(help="A folder of run folders, report files, or folders of runs.")
    ] = Path("runs"),
    formats: Annotated[
        str | None,
        typer.Option("--format", "-f", help=f"{', '.join(FORMATS)}; comma-separated.", show_default="html"),
    ] = None,
    target: given.Target = ".",
    workload: given.OnlyWorkloads = None,
    device: given.OnlyDevices = None,
    quiet: Quiet = False,
) -> None:
    """Show every workload's speed through time, by machine and image, and where it changed.

    What cannot be read is skipped with a note. Runs are kept in brief in the cache folder, so that the second
    time is fast.
    """  # fmt: skip
    from harness.analysis.history import history as through_time  # noqa: PLC0415

    wanted = wanted_of(formats, target, FORMATS)
    paths = runs_under(folder)
    if not paths:
        raise StoreError(
            f"There are no runs in {folder}.", hint="Name the folder that runs are in, as runs/."
        )
    progress = Terminal(err(), quiet=quiet)
    cache = Cache(places().cache / "extracts")
    found = gather([Named(path=path) for path in paths], cache=cache, price="", progress=progress)
    made = through_time(
        narrowed(
            [one.extract for one in found if one.extract is not None],
            workloads=split(workload),
            devices=split(device),
        ),
        [Skipped(path=str(one.path), why=one.error) for one in found if one.extract is None],
    )
    deliver(out(), NAME, _texts(made, wanted.formats), target, wanted.file)
    if not quiet and target != PRINTED:
        show(err(), made.headline)
        for one in made.skipped:
            progress.line(f"Skipped {one.path}: {one.why}")


def _texts(made: History, wanted: Sequence[str]) -> dict[str, str]:
    from harness.analysis.comparison_document import history_document  # noqa: PLC0415
    from reports.history import render_csv, render_html, render_markdown  # noqa: PLC0415

    document = history_document(made)
    return in_formats(
        wanted,
        document,
        html=lambda vega: render_html(made, document, version=__version__, bundle=vega.text, draw=vega.still),
        markdown=lambda: render_markdown(made, version=__version__),
        table=lambda: render_csv(made),
    )
