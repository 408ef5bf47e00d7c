"""From a run, or a report file, to the files that people open."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.output import charts_code
from harness.model.analysis import Analysis
from harness.run.extracts import from_json, reference_path, references
from harness.run.prices import read_prices
from harness.run.recording import carried, open_recording

# Format -> its file's name in a run folder.
FILES: Mapping[str, str] = {
    "html": "report.html",
    "md": "report.md",
    "json": "results.json",
    "csv": "summary.csv",
}


def newest(path: Path) -> Path:
    """Return `path` if it is a run folder or a file, else the newest run folder in it, else `path`."""
    if path.is_file() or (path / "manifest.json").exists():
        return path
    runs = (manifest.parent for manifest in path.glob("*/manifest.json"))
    return max(runs, default=path, key=lambda run: run.name)


def report_texts(run: Path, formats: Sequence[str], price: str = "") -> tuple[Analysis, Mapping[str, str]]:
    """Read a run from its folder or out of a report file, and return its analysis and a text for each format.

    Args:
        price: as written with --price; "" for the prices that the run was made with.

    Raises:
        StoreError: it is neither.
        UsageError: the price cannot be read.
    """
    # What formats need takes a while to import: it is kept off the way to the first training step.
    from harness.analysis import analyse, priced  # noqa: PLC0415
    from harness.analysis.results import results_document  # noqa: PLC0415
    from reports.page import render_html, render_markdown  # noqa: PLC0415
    from reports.table import render_csv  # noqa: PLC0415

    recorded, before = open_recording(run)
    if price:
        recorded = replace(recorded, manifest=replace(recorded.manifest, prices=read_prices(price)))
    analysis = priced(before, recorded) if before else analyse(recorded)

    def html() -> str:
        record, shown = carried(analysis, whole=before is None)
        machines = [from_json(reference_path(name).read_bytes()) for name in references()]
        return render_html(shown, record=record, code=charts_code, references=machines)

    renderers: Mapping[str, Callable[[], str]] = {
        "html": html,
        "md": lambda: render_markdown(analysis),
        "csv": lambda: render_csv(analysis),
        "json": lambda: json.dumps(results_document(analysis), indent=1) + "\n",
    }
    return analysis, {form: renderers[form]() for form in formats}
