"""Keep runs of cases in one archive, small enough to be replayed by the tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

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


def xprof_answers(suite: str) -> Path:
    """Return where is kept what xprof said of a suite's traces: they are too large to be kept themselves."""
    return KEPT / f"{suite}-xprof.json"


def pack(cases: Iterable[Case], folder: Path, into: Path) -> None:
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
