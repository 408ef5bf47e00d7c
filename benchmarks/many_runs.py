"""What `tfbench history` and `tfbench compare` take over many runs, the first time and from the cache.

    python -m benchmarks.many_runs [--runs 1000] [--first 40]

Runs are copies of a recorded one with a day and trials of their own. The first time is measured over fewer
and given for one run: it grows with their number.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.extracts import Cache
from harness.model.comparison import Extract
from harness.recording import open_run
from tests.recordings import recording

NAME = "h200-launch-bound"
COMPARED = 200
NOISE = 0.01


def main(words: Sequence[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=40, help="runs to read without the cache")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        for line in measure(Path(folder), chosen.runs, chosen.first):
            print(line, flush=True)  # noqa: T201 - a benchmark's output
    return 0


def measure(work: Path, runs: int, first: int) -> Sequence[str]:
    """Return a Markdown table."""
    original = recording(NAME, work)
    made = extract(analyse(open_run(original)))
    for number in range(first):
        _copy(original, work / "few" / f"{number:04}", number)
    first_s = _seconds(work, "history", str(work / "few"))
    many = [_copy(original, work / "many" / f"{number:04}", number) for number in range(runs)]
    cache = Cache(work / "cache/extracts")
    for number, path in enumerate(many):
        cache.keep(path, "", _like(made, number))
    again_s = _seconds(work, "history", str(work / "many"))
    compare_s = _seconds(work, "compare", *map(str, many[:COMPARED]))
    size = (work / "out/history.html").stat().st_size
    return (
        "| | by the clock | of the CPUs |",
        "|---|---|---|",
        f"| `tfbench history`, first time, s a run (over {first}) | {_cells(first_s, first)} |",
        f"| `tfbench history`, {runs:,} runs from the cache, s | {_cells(again_s)} |",
        f"| `tfbench compare`, {min(COMPARED, runs)} runs from the cache, s | {_cells(compare_s)} |",
        f"| history.html, MB | {size / 1e6:.2f} | |",
    )


def _cells(taken: Taken, runs: int = 1) -> str:
    return f"{taken.wall_s / runs:.2f} | {taken.cpu_s / runs:.2f}"


def _copy(original: Path, to: Path, number: int) -> Path:
    shutil.copytree(original, to, copy_function=os.link)
    manifest = json.loads((to / "manifest.json").read_text(encoding="utf-8"))
    (to / "manifest.json").unlink()  # else the original's would be written to
    manifest |= {"run_id": f"run-{number:04}", "created": _day(number)}
    (to / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return to


def _day(number: int) -> str:
    return (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)).isoformat()


def _like(made: Extract, number: int) -> Extract:
    random = np.random.default_rng(number)
    speeds = tuple(
        replace(
            one, throughput=tuple(value * float(np.exp(random.normal(0, NOISE))) for value in one.throughput)
        )
        for one in made.speeds
    )
    return replace(
        made, run_id=f"run-{number:04}", label=f"run-{number:04}", created=_day(number), speeds=speeds
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Seconds of a command by the clock, and of the CPUs by it and what it started."""

    wall_s: float
    cpu_s: float


def _seconds(work: Path, *words: str) -> Taken:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "harness", *words, "--out", str(work / "out"), "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={"TFBENCH_CACHE": str(work / "cache"), "PATH": ""},
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(
        wall_s=time.perf_counter() - began,
        cpu_s=used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
