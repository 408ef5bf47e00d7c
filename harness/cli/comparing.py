"""From runs to the files of a comparison: used by every command that ends in one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import __version__
from harness.cli.output import charts_code
from harness.model.comparison import Extract, Gate, Versus
from harness.model.run import Prices
from harness.model.workers import Scaling
from harness.progress import Progress
from harness.run.extracts import SUFFIX, from_json
from harness.run.prices import read_prices
from harness.run.recording import open_recording
from harness.run.store import write_whole
from harness.untrusted import printable, read_file

# Runs that are not worth a second process: starting one takes as long as reading some.
_FEW = 4


def page_in(folder: Path | None, form: str) -> Path:
    """Return where a comparison's page of a format goes in a folder, by default this one."""
    return (folder or Path()) / f"comparison.{form}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's path and what to call it; the label is "" for its own."""

    path: Path
    label: str = ""


def named(word: str) -> Named:
    """Read PATH or NAME=PATH; a path that exists is a path whatever it contains."""
    label, equals, path = word.partition("=")
    if equals and label and not Path(word).exists():
        return Named(path=Path(path), label=printable(label, 100))
    return Named(path=Path(word))


def extracts(runs: Sequence[Named], *, price: str, progress: Progress) -> tuple[Extract, ...]:
    """Return each run in brief, in order.

    Args:
        runs: run folders, report files or extracts.
        price: as written with --price; "" for the runs' own.

    Raises:
        StoreError: a run cannot be read.
    """
    read = partial(_read, prices=read_prices(price) if price else None)
    workers = min(os.cpu_count() or 1, len(runs) // _FEW)
    result = []
    with progress.task("Reading runs", float(len(runs))) as task, ExitStack() as held:
        mapped = map if workers < 2 else held.enter_context(ProcessPoolExecutor(workers)).map
        for extract in mapped(read, runs):
            result.append(extract)
            task.advance(1)
    return tuple(result)


def comparison_texts(made: Versus, gate: Gate | None, formats: Sequence[str]) -> dict[str, str]:
    """Return a comparison in each of some formats."""
    from harness.analysis.results import comparison_document  # noqa: PLC0415
    from reports.compare_page import render_html, render_markdown  # noqa: PLC0415
    from reports.table import comparison_csv  # noqa: PLC0415

    renderers: Mapping[str, Callable[[], str]] = {
        "html": lambda: render_html(made, gate=gate, version=__version__, code=charts_code),
        "md": lambda: render_markdown(made, gate=gate),
        "csv": lambda: comparison_csv(made),
        "json": lambda: json.dumps(comparison_document(made, gate), indent=1) + "\n",
    }
    return {form: renderers[form]() for form in formats}


def write_comparison(
    runs: Sequence[Named], folder: Path, *, progress: Progress, scaling: Scaling | None = None
) -> Path:
    """Compare runs, write the page into a folder, and return its path.

    Args:
        scaling: what the runs are numbers of workers of, for a section of its own.

    Raises:
        StoreError: a run cannot be read, or the page cannot be written.
    """
    from harness.analysis.versus import versus  # noqa: PLC0415 - kept off the start of commands

    made = replace(versus(extracts(runs, price="", progress=progress)), scaling=scaling)
    return write_whole(page_in(folder, "html"), comparison_texts(made, None, ("html",))["html"])


def _read(run: Named, *, prices: Prices | None) -> Extract:
    """Read and analyse one run; in a process of its own where there are many."""
    from harness.analysis import analyse, priced  # noqa: PLC0415 - kept off the start of the command
    from harness.analysis.extract import extract  # noqa: PLC0415

    if run.path.name.endswith(SUFFIX):
        made = from_json(read_file(run.path))
    else:
        whole, analysis = open_recording(run.path)
        if prices is not None:
            whole = replace(whole, manifest=replace(whole.manifest, prices=prices))
            analysis = priced(analysis, whole) if analysis else None
        made = extract(analysis or analyse(whole))
    return replace(made, source=str(run.path), label=run.label or made.label)
