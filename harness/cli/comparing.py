"""From runs to the files of a comparison: used by every command that ends in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import __version__
from harness.cli.gather import Named, gather
from harness.cli.pages import in_formats, write
from harness.model.comparison import Gate, Versus
from harness.model.scaling import Scaling
from harness.progress import Progress

FORMATS = ("html", "md", "json", "csv")
NAME = "comparison"


def compare_pages(
    asked: Sequence[Named],
    folder: Path,
    *,
    progress: Progress,
    formats: Sequence[str] = ("html",),
    scaling: Scaling | None = None,
) -> dict[str, Path]:
    """Compare runs and write the pages into a folder; a run that cannot be read is left out with a line.

    Args:
        asked: run folders, report files or extracts, each with what to call it.
        folder: made when it is not there; the files are called comparison.html and so on.
        formats: of FORMATS.
        scaling: what the runs are numbers of workers of, for a section of its own.

    Returns:
        Format -> file; empty when no run could be read.

    Raises:
        StoreError: a file cannot be written.
    """
    from harness.analysis.versus import versus  # noqa: PLC0415 - kept off the start of commands

    found = gather(asked, price="", progress=progress)
    for one in found:
        if one.extract is None:
            progress.line(f"Left out of the comparison, {one.path}: {one.error}")
    runs = [one.extract for one in found if one.extract is not None]
    if not runs:
        return {}
    made = versus(runs)
    if scaling is not None:
        # What numbers of workers come to is efficiency, not which run is the fastest.
        made = replace(made, scaling=scaling, headline=" ".join(scaling.sentences) or made.headline)
    return write(NAME, texts_of(made, None, formats), folder)


def texts_of(made: Versus, checked: Gate | None, formats: Sequence[str]) -> dict[str, str]:
    """Return a comparison in each of some formats."""
    from harness.analysis.comparison_document import comparison_document  # noqa: PLC0415
    from reports.compare import render_csv, render_html, render_markdown  # noqa: PLC0415

    document = comparison_document(made, checked)
    return in_formats(
        formats,
        document,
        html=lambda vega: render_html(
            made, document, gate=checked, version=__version__, bundle=vega.text, draw=vega.still
        ),
        markdown=lambda: render_markdown(made, gate=checked, version=__version__),
        table=lambda: render_csv(made),
    )
