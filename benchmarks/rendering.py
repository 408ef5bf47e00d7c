"""What `tfbench report` takes for one hour at 10 Hz with eight GPUs, made of a recorded run.

    python -m benchmarks.overhead render [--recording RUN]

The recording's telemetry and windows are laid end to end until the hour is full, and its GPU's telemetry
is given to eight GPUs. Targets: at most 2 s and 3 MB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.longrun import CARDS, SECONDS, lengthened
from benchmarks.settings import Settings
from harness.analysis import analyse
from harness.analysis.results import results_document
from harness.model.run import Run
from harness.run.store import read_run
from reports.page import render_html
from tests.builders import long_run
from tests.folders import write_run
from tests.recordings import unpack

T = TypeVar("T")
TARGET_S = 2.0
TARGET_BYTES = 3_000_000


def measure(settings: Settings) -> Sequence[str]:
    """Return a Markdown table: seconds of the command and of its parts, and the page's size."""
    folder = settings.work / "long-run"
    run, origin = source(run_folder(settings.recording, settings.work))
    shutil.rmtree(folder, ignore_errors=True)
    write_run(folder, run)
    rows = sum(len(series.t_ns) for trial in run.trials for series in trial.telemetry)
    cells = sum(len(one.t_ns) * len(one.columns) for trial in run.trials for one in trial.telemetry)
    del run
    command = [_seconds(lambda: _command(folder)) for _ in range(settings.rounds)]
    page = (folder / "report.html").stat().st_size
    results = (folder / "results.json").stat().st_size
    read_s, read = _timed(lambda: read_run(folder))
    analyse_s, analysis = _timed(lambda: analyse(read))
    html_s, _ = _timed(lambda: render_html(analysis))
    json_s, _ = _timed(lambda: json.dumps(results_document(analysis), indent=1))
    shutil.rmtree(folder)
    return (
        f"Report of one hour at 10 Hz with {CARDS} GPUs ({origin}; {rows:,} readings, {cells:,} values):",
        "",
        "| | measured | target |",
        "|---|---|---|",
        f"| `tfbench report`, s, median of {settings.rounds} | {median(command):.2f} | {TARGET_S:g} |",
        f"| report.html, MB | {page / 1e6:.2f} | {TARGET_BYTES / 1e6:g} |",
        f"| results.json, MB | {results / 1e6:.2f} | |",
        f"| reading the run, s | {read_s:.2f} | |",
        f"| analysis, s | {analyse_s:.2f} | |",
        f"| page, s | {html_s:.2f} | |",
        f"| results, s | {json_s:.2f} | |",
    )


def run_folder(recording: Path, work: Path) -> Path:
    """Return a recording's run folder, unpacked into `work` where the recording is an archive."""
    return unpack(recording, work) if recording.is_file() else recording


def source(recording: Path) -> tuple[Run, str]:
    """Return the hour, and what it was made of; a made-up run where there is no recording."""
    if (recording / "manifest.json").exists():
        return lengthened(read_run(recording)), f"made of {recording.name}"
    return long_run(seconds=SECONDS, gpus=CARDS), "made up"


def _command(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "harness", "report", str(folder)], check=True, stdout=subprocess.DEVNULL
    )


def _seconds(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result
