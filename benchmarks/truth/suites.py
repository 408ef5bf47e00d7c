"""All cases by suite, and their recorded runs in archives small enough for tests to replay."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.truth.case import Case
from benchmarks.truth.cpu_cases import CPU_CASES
from benchmarks.truth.gpu_cases import GPU_CASES
from benchmarks.truth.script_cases import FIELD, HELD_OUT
from benchmarks.truth.standin_cases import STANDIN_CASES
from benchmarks.truth.third_cases import THIRD, THIRD_GPU

ABLATIONS = "-ablations"  # the references of a suite, in its folder
SUITES: Mapping[str, tuple[Case, ...]] = {
    "cpu": (*CPU_CASES, *STANDIN_CASES),
    "gpu": GPU_CASES,
    "field": tuple(pair.case for pair in FIELD),
    f"field{ABLATIONS}": tuple(pair.ablation for pair in FIELD),
    "held-out": tuple(pair.case for pair in HELD_OUT),
    f"held-out{ABLATIONS}": tuple(pair.ablation for pair in HELD_OUT),
    "third": tuple(pair.case for pair in THIRD),
    f"third{ABLATIONS}": tuple(pair.ablation for pair in THIRD),
    "third-gpu": tuple(pair.case for pair in THIRD_GPU),
    f"third-gpu{ABLATIONS}": tuple(pair.ablation for pair in THIRD_GPU),
}
KEPT = Path(__file__).resolve().parent / "recordings"
# Files that the evaluation needs; reports, results and logs are left out.
PATTERNS = (
    "manifest.json", "plan.json", "stops.json", "trials/*/trial.json", "trials/*/out/*", "trials/*/telemetry/*.csv",
)  # fmt: skip


def archive(suite: str) -> Path:
    """Return the path of a suite's recorded runs."""
    return KEPT / f"{suite}.tar.xz"


def packed_answers(suite: str) -> Mapping[str, Mapping[str, Any]]:
    """Return xprof's answers by case; the traces themselves are too large to keep."""
    file = KEPT / f"{suite}-xprof.json"
    answers: Mapping[str, Mapping[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return answers


def pack_runs(cases: Iterable[Case], folder: Path, into: Path) -> None:
    """Write all finished runs of the cases to an archive, reproducibly."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(into, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as tar:
        for case in sorted(cases, key=lambda case: (case.script, case.name)):
            if case.recording:
                continue  # derived from another recording
            for pattern in PATTERNS:
                for file in sorted((folder / case.name).glob(pattern)):
                    entry = tarfile.TarInfo(f"{case.name}/{file.relative_to(folder / case.name)}")
                    entry.size = file.stat().st_size
                    tar.addfile(entry, io.BytesIO(file.read_bytes()))


def unpack(suite: str, into: Path) -> Path:
    """Unpack a suite's recorded runs and return the folder with a run folder per case."""
    with tarfile.open(archive(suite)) as tar:
        tar.extractall(into, filter="data")
    return into
