"""What `tfbench report` takes for one hour at 10 Hz with eight GPUs: `python -m benchmarks.overhead render`.

Targets: at most 2 s and 3 MB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.tables import markdown
from harness.analysis import analyse
from harness.analysis.results import results_document
from harness.run.store import read_run
from reports.page import render_html
from tests.builders import long_run
from tests.folders import write_run

T = TypeVar("T")
FOLDER = Path("build/overhead/long-run")
GPUS, SECONDS = 8, 3600
TARGET_S = 2.0
TARGET_BYTES = 3_000_000


def measure(rounds: int) -> Iterator[str]:
    """Yield a Markdown table: seconds of the command and of its parts, and the page's size."""
    run = long_run(seconds=SECONDS, gpus=GPUS)
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_run(FOLDER, run)
    series = [one for trial in run.trials for one in trial.telemetry]
    rows = sum(len(one.t_ns) for one in series)
    values = sum(len(one.t_ns) * len(one.columns) for one in series)
    command = [sys.executable, "-m", "harness", "report", str(FOLDER)]
    taken = [
        _timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))[0]
        for _ in range(rounds)
    ]
    page, results = ((FOLDER / name).stat().st_size for name in ("report.html", "results.json"))
    read_s, read = _timed(lambda: read_run(FOLDER))
    analyse_s, analysis = _timed(lambda: analyse(read))
    html_s, _ = _timed(lambda: render_html(analysis))
    json_s, _ = _timed(lambda: json.dumps(results_document(analysis), indent=1))
    shutil.rmtree(FOLDER)
    yield f"Report of one hour at 10 Hz with {GPUS} GPUs ({rows:,} readings, {values:,} values):"
    yield ""
    yield from markdown(
        ("", "measured", "target"),
        (
            (f"`tfbench report`, s, median of {rounds}", f"{median(taken):.2f}", f"{TARGET_S:g}"),
            ("report.html, MB", f"{page / 1e6:.2f}", f"{TARGET_BYTES / 1e6:g}"),
            ("results.json, MB", f"{results / 1e6:.2f}", ""),
            ("reading the run, s", f"{read_s:.2f}", ""),
            ("analysis, s", f"{analyse_s:.2f}", ""),
            ("page, s", f"{html_s:.2f}", ""),
            ("results, s", f"{json_s:.2f}", ""),
        ),
    )


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result
