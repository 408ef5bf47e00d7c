"""Render the report of a run folder or report file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.output_files import charts_code
from harness.model.analysis import Analysis
from harness.model.comparison import Extract
from harness.model.run import Prices
from harness.paths import paths_here
from harness.run.extract_files import from_json, references
from harness.run.prices import read_prices
from harness.run.recording import open_recording, pack_for_page

# Format -> file name in a run folder.
FILES: Mapping[str, str] = {
    "html": "report.html",
    "md": "report.md",
    "json": "results.json",
    "csv": "summary.csv",
    "github": "github-benchmark.json",
    "bencher": "bencher.json",
    "openmetrics": "metrics.prom",
    "mlperf": "mlperf-system.json",
}


def read_analysis(path: Path, prices: Prices | None, added: Sequence[Extract] = ()) -> tuple[Analysis, bool]:
    """Read a run folder or report file; return its analysis, and whether the analysed run is complete.

    Prices replace those stored in the run; `added` are more reference machines.

    Raises:
        StoreError: not a run folder or report file.
    """
    # Imported late, so that the imports do not delay the first training step.
    from harness.analysis import analyse, compared, priced  # noqa: PLC0415

    recorded, embedded = open_recording(path)
    if prices is not None:
        recorded = replace(recorded, manifest=replace(recorded.manifest, prices=prices))
    analysis = priced(embedded, recorded) if embedded else analyse(recorded)
    shipped = (from_json(file.read_bytes()) for file in references().values())
    return compared(analysis, [*shipped, *added]), embedded is None


def report_renderers(
    run: Path, price: str = "", added: Sequence[Extract] = ()
) -> tuple[Analysis, Mapping[str, Callable[[], str]]]:
    """Read a run folder or report file; return its analysis, and functions that render each format.

    Raises:
        StoreError: not a run folder or report file.
        UsageError: the price is not valid.
    """
    from harness.analysis.results_json import results_document  # noqa: PLC0415
    from reports import exports  # noqa: PLC0415
    from reports.csv_table import render_csv  # noqa: PLC0415
    from reports.page import render_html, render_markdown  # noqa: PLC0415

    analysis, whole = read_analysis(run, read_prices(price), added)

    def html() -> str:
        record, shown = pack_for_page(analysis, whole=whole)
        return render_html(shown, record=record, code=charts_code(paths_here().cache / "charts"))

    return analysis, {
        "html": html,
        "md": lambda: render_markdown(analysis),
        "csv": lambda: render_csv(analysis),
        "json": lambda: json.dumps(results_document(analysis), indent=1) + "\n",
        "github": lambda: exports.render_github(analysis),
        "bencher": lambda: exports.render_bencher(analysis),
        "openmetrics": lambda: exports.render_openmetrics(analysis),
        "mlperf": lambda: exports.render_mlperf(analysis),
    }
