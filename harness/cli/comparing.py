"""From runs to the files of a comparison: used by every command that ends in one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import __version__
from harness.cli.output import charts_code
from harness.errors import StoreError, UsageError
from harness.model.comparison import Extract, Gate, Versus
from harness.model.run import Prices
from harness.model.scaling import Scaling
from harness.progress import Progress
from harness.run.extracts import SUFFIX, from_json
from harness.run.prices import read_prices
from harness.run.recording import open_recording
from harness.run.store import write_whole
from harness.untrusted import printable, read_file

NAME = "comparison"
# Runs that are not worth a second process: starting one takes as long as reading some.
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's path and what to call it; the label is "" for its own."""

    path: Path
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A run in brief, or why there is none."""

    path: Path
    extract: Extract | None
    error: str = ""
    hint: str = ""


def named(word: str) -> Named:
    """Read PATH or NAME=PATH; a path that exists is a path whatever it contains."""
    label, equals, path = word.partition("=")
    if equals and label and not Path(word).exists():
        return Named(path=Path(path), label=printable(label, 100))
    return Named(path=Path(word))


def gather(wanted: Sequence[Named], *, price: str, progress: Progress) -> tuple[Loaded, ...]:
    """Return each run in brief, in order; what cannot be read comes with the reason.

    Args:
        wanted: run folders, report files or extracts.
        price: as written with --price; "" for the runs' own.
    """
    prices = read_prices(price) if price else None
    loaded: list[Loaded] = []
    with progress.task("Reading runs", float(len(wanted)), "") as task:
        for asked, read in zip(wanted, _all(prices, [run.path for run in wanted]), strict=True):
            extract = read.extract
            if extract is not None and asked.label:
                extract = replace(extract, label=asked.label)
            loaded.append(replace(read, extract=extract))
            task.advance(1)
    return tuple(loaded)


def extracts_of(loaded: Sequence[Loaded]) -> tuple[Extract, ...]:
    """Return the extracts.

    Raises:
        StoreError: a run could not be read.
    """
    for run in loaded:
        if run.extract is None:
            raise StoreError(run.error, hint=run.hint)
    return tuple(run.extract for run in loaded if run.extract is not None)


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
) -> Path | None:
    """Compare runs and write the page into a folder; a run that cannot be read is left out with a line.

    Args:
        scaling: what the runs are numbers of workers of, for a section of its own.

    Returns:
        The page, None when no run could be read.

    Raises:
        StoreError: the page cannot be written.
    """
    from harness.analysis.versus import versus  # noqa: PLC0415 - kept off the start of commands

    loaded = gather(runs, price="", progress=progress)
    for run in loaded:
        if run.extract is None:
            progress.line(f"Left out of the comparison, {run.path}: {run.error}")
    extracts = [run.extract for run in loaded if run.extract is not None]
    if not extracts:
        return None
    made = versus(extracts)
    if scaling is not None:
        made = replace(made, scaling=scaling)
    return write_whole(folder / f"{NAME}.html", comparison_texts(made, None, ("html",))["html"])


def _all(prices: Prices | None, paths: Sequence[Path]) -> Iterator[Loaded]:
    read = partial(_read, prices=prices)
    workers = min(os.cpu_count() or 1, len(paths) // _FEW)
    if workers < 2:
        yield from map(read, paths)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(read, paths, chunksize=_FEW)


def _read(path: Path, *, prices: Prices | None) -> Loaded:
    """Read and analyse one run; in a process of its own where there are many."""
    from harness.analysis import analyse, priced  # noqa: PLC0415 - kept off the start of the command
    from harness.analysis.extract import extract  # noqa: PLC0415

    try:
        if path.name.endswith(SUFFIX):
            return Loaded(path=path, extract=replace(from_json(read_file(path)), source=str(path)))
        recording = open_recording(path)
        run, analysis = recording.run, recording.analysis
        if prices is not None:
            run = replace(run, manifest=replace(run.manifest, prices=prices))
            analysis = priced(analysis, run) if analysis else None
        return Loaded(path=path, extract=extract(analysis or analyse(run), source=str(path)))
    except (StoreError, UsageError) as error:
        return Loaded(path=path, extract=None, error=error.message, hint=error.hint)
