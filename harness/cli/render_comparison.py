"""Read runs and render their comparison; shared by `compare` and `fleet`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.cli.output_files import charts_code
from harness.cli.render_report import read_analysis
from harness.model.comparison import Extract, Gate, Versus
from harness.model.run import Prices
from harness.paths import paths_here
from harness.progress import Progress
from harness.run.extract_files import SUFFIX, from_json
from harness.run.prices import read_prices
from harness.untrusted import read_file

# Format -> file name.
FILES: Mapping[str, str] = {
    "html": "comparison.html",
    "md": "comparison.md",
    "json": "comparison.json",
    "csv": "comparison.csv",
    "junit": "comparison.xml",
}
# Starting a process takes as long as reading this many runs.
_RUNS_PER_PROCESS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run's path and display name; the label is "" to use the run's own."""

    path: Path
    label: str = ""


def read_extracts(runs: Sequence[NamedRun], progress: Progress, *, price: str = "") -> tuple[Extract, ...]:
    """Return an extract of each run folder, report file or extract, in order.

    Raises:
        StoreError: a run cannot be read.
    """
    read_one = partial(_read_extract, prices=read_prices(price))
    workers = min(os.cpu_count() or 1, len(runs) // _RUNS_PER_PROCESS)
    result = []
    with progress.task("Reading runs", float(len(runs))) as task, ExitStack() as stack:
        map_runs = map if workers < 2 else stack.enter_context(ProcessPoolExecutor(workers)).map
        for extract in map_runs(read_one, runs):
            result.append(extract)
            task.advance(1)
    return tuple(result)


def comparison_renderers(comparison: Versus, gate: Gate | None = None) -> Mapping[str, Callable[[], str]]:
    """Return functions that render a comparison in each format."""
    from harness.analysis.gate import gate as check  # noqa: PLC0415
    from harness.analysis.results_json import comparison_document  # noqa: PLC0415
    from reports.compare_page import render_html, render_markdown  # noqa: PLC0415
    from reports.csv_table import comparison_csv  # noqa: PLC0415
    from reports.junit import render_junit  # noqa: PLC0415

    return {
        "html": lambda: render_html(comparison, gate=gate, code=charts_code(paths_here().cache / "charts")),
        "md": lambda: render_markdown(comparison, gate=gate),
        "csv": lambda: comparison_csv(comparison),
        "json": lambda: json.dumps(comparison_document(comparison, gate), indent=1) + "\n",
        "junit": lambda: render_junit(comparison, gate or check(comparison)),
    }


def _read_extract(run: NamedRun, *, prices: Prices | None) -> Extract:
    """Read and analyse one run; runs in a worker process if there are many."""
    from harness.analysis.extract import extract  # noqa: PLC0415 - kept off the start of the command

    if run.path.name.endswith(SUFFIX):
        extracted = from_json(read_file(run.path))
    else:
        extracted = extract(read_analysis(run.path, prices)[0])
    return replace(extracted, source=str(run.path), label=run.label or extracted.label)
