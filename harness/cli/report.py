"""`tfbench report`: render a run folder again."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import Price, app, out
from harness.cli.console import show_summary
from harness.errors import UsageError
from harness.prices import priced
from harness.store import RunFolder, read_run

FORMATS = ("html", "json", "md")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run folder, or the folder of runs for its newest.")] = Path(
        "runs"
    ),
    formats: Annotated[
        str, typer.Option("--format", "-f", help="html, json, md; comma-separated.")
    ] = "html,json",
    price: Price = "",
) -> None:
    """Make a run's report again from its recorded data; also of a run that was cut off."""  # fmt: skip
    from harness.analysis import analyse  # noqa: PLC0415
    from harness.analysis.results import results_document  # noqa: PLC0415
    from reports.bundle import Bundling  # noqa: PLC0415
    from reports.render import render_html, render_markdown  # noqa: PLC0415

    wanted = [part.strip() for part in formats.split(",") if part.strip()]
    for one in wanted:
        if one not in FORMATS:
            raise UsageError(f"There is no format {one!r}.", hint=f"Choose from: {', '.join(FORMATS)}.")
    path = newest(run)
    folder = RunFolder(path)
    with Bundling() if "html" in wanted else nullcontext() as bundling:
        recorded = read_run(path)
        analysis = analyse(replace(recorded, manifest=priced(recorded.manifest, price)))
        for one in wanted:
            if one == "html":
                written = folder.write_text("report.html", render_html(analysis, bundling=bundling))
            elif one == "md":
                written = folder.write_text("report.md", render_markdown(analysis))
            else:
                document = json.dumps(results_document(analysis), indent=1)
                written = folder.write_text("results.json", document + "\n")
            out().print(f"{one}: {written.resolve()}", soft_wrap=True)
    show_summary(out(), analysis)


def newest(path: Path) -> Path:
    """Return `path` if it is a run folder, else the newest run folder in it, else `path`."""
    if (path / "manifest.json").exists():
        return path
    return max((one.parent for one in path.glob("*/manifest.json")), default=path, key=lambda one: one.name)
