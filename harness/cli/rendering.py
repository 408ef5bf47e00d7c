"""From a run, or a report file, to the files that people open: used by every command that writes a report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.app import charts_kept
from harness.errors import UsageError
from harness.model.analysis import Analysis
from harness.run.prices import priced as with_prices
from harness.run.recording import carried, open_recording
from harness.run.store import write_whole

if TYPE_CHECKING:
    from reports.bundle import Bundling

# Format -> its file's name in a run folder, and its suffix beside a report file.
FILES: Mapping[str, tuple[str, str]] = {
    "html": ("report.html", ".html"),
    "md": ("report.md", ".md"),
    "json": ("results.json", ".json"),
    "csv": ("summary.csv", ".csv"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run's analysis; `whole` is False where the run is a report's, thinned out."""

    analysis: Analysis
    whole: bool


def read_analysis(path: Path, price: str = "") -> Found:
    """Read a run from its folder or out of a report file, and analyse it.

    Args:
        path: a run folder or a report file.
        price: what was written with --price; "" for the prices that the run was made with.

    Raises:
        StoreError: it is neither.
        UsageError: the price cannot be read.
    """
    from harness.analysis import analyse, priced  # noqa: PLC0415 - kept off the way to the first training step

    found = open_recording(path)
    run = replace(found.run, manifest=with_prices(found.run.manifest, price))
    if found.analysis is None:
        return Found(analysis=analyse(run), whole=True)
    return Found(analysis=priced(found.analysis, run), whole=False)


def newest(path: Path) -> Path:
    """Return `path` if it is a run folder or a file, else the newest run folder in it, else `path`."""
    if path.is_file() or (path / "manifest.json").exists():
        return path
    return max((one.parent for one in path.glob("*/manifest.json")), default=path, key=lambda one: one.name)


def targets(
    run: Path, formats: Sequence[str], folder: Path | None, file: Path | None = None
) -> Mapping[str, Path]:
    """Say where each format goes: to `file`, into `folder`, else into the run folder or beside the report.

    Raises:
        UsageError: a report would be written over the one that it is read from.
    """
    if file is not None:
        found = dict.fromkeys(formats, file)
    elif run.is_file():
        found = {one: (folder or run.parent) / f"{run.stem}{FILES[one][1]}" for one in formats}
    else:
        return {one: (folder or run) / FILES[one][0] for one in formats}
    if any(path.resolve() == run.resolve() for path in found.values()):
        raise UsageError(
            f"{run} would be written over while it is what the run is read from.",
            hint="Name another folder or file with --out, or other formats.",
        )
    return found


def write_reports(run: Path, places: Mapping[str, Path], *, price: str = "") -> Analysis:
    """Read a run and write it in each format.

    Args:
        run: a run folder or a report file.
        places: format -> file.
        price: what was written with --price.

    Raises:
        UsageError: the price cannot be read.
        StoreError: the run cannot be read, or a file cannot be written.
    """
    from reports.bundle import Bundling  # noqa: PLC0415 - as below: what each format needs takes a while

    with Bundling(charts_kept()) if "html" in places else nullcontext() as bundling:
        found = read_analysis(run, price)
        for name, path in places.items():
            write_whole(path, _content(name, found, bundling))
    return found.analysis


def report_in(form: str, run: Path, *, price: str = "") -> str:
    """Read a run and return it in one format; arguments and errors as for `write_reports`."""
    from reports.bundle import Bundling  # noqa: PLC0415 - as above

    with Bundling(charts_kept()) if form == "html" else nullcontext() as bundling:
        return _content(form, read_analysis(run, price), bundling)


def _content(form: str, found: Found, bundling: Bundling | None) -> str:
    match form:
        case "html":
            assert bundling is not None
            return _html(found, bundling)
        case "md":
            from reports.render import render_markdown  # noqa: PLC0415

            return render_markdown(found.analysis)
        case "csv":
            from reports.table import render_csv  # noqa: PLC0415

            return render_csv(found.analysis)
        case _:
            from harness.analysis.results import results_document  # noqa: PLC0415

            return json.dumps(results_document(found.analysis), indent=1) + "\n"


def _html(found: Found, bundling: Bundling) -> str:
    from reports.render import render_html  # noqa: PLC0415

    inside = carried(found.analysis, whole=found.whole)
    return render_html(inside.analysis, record=inside.text, bundle=bundling.text, draw=bundling.still)
