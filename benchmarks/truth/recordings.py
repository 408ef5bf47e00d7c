"""Keep runs of cases in one archive, small enough to be replayed by the tests."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.truth.case import Case

KEPT = Path(__file__).resolve().parent / "recordings"
# What verdicts are made of; pages, results and logs are left out.
PATTERNS = (
    "manifest.json",
    "plan.json",
    "stops.json",
    "trials/*/trial.json",
    "trials/*/out/*",
    "trials/*/telemetry/*.csv",
)


def archive(suite: str) -> Path:
    """Return where a suite's runs are kept."""
    return KEPT / f"{suite}.tar.xz"


def packed_answers(suite: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what xprof said of a suite's traces, by case: they are too large to be kept themselves."""
    file = KEPT / f"{suite}-xprof.json"
    answers: Mapping[str, Mapping[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return answers


def pack_runs(cases: Iterable[Case], folder: Path, into: Path) -> None:
    """Put the runs of those cases that were run into an archive; the same files give the same archive."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(into, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as tar:
        for case in sorted(cases, key=lambda case: (case.workload, case.name)):
            if case.recording:
                continue  # made again from the recording that it stands on
            for pattern in PATTERNS:
                for file in sorted((folder / case.name).glob(pattern)):
                    entry = tarfile.TarInfo(f"{case.name}/{file.relative_to(folder / case.name)}")
                    entry.size = file.stat().st_size
                    tar.addfile(entry, io.BytesIO(file.read_bytes()))


def unpack(suite: str, into: Path) -> Path:
    """Unpack a suite's kept runs and return the folder that holds a run folder for each case."""
    with tarfile.open(archive(suite)) as tar:
        tar.extractall(into, filter="data")
    return into
