"""Run a case as `tfbench bench SCRIPT` does by default, less the machine's own figures, and keep its run folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.truth.case import Case
from benchmarks.truth.planting import PlantingEngine
from benchmarks.truth.standin_cases import plant
from harness.errors import TrialError
from harness.model.run import Status
from harness.options import Options
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.prepare import Prepared, execute, prepare
from harness.run.resolve import resolve
from harness.run.store import RunFolder
from tests.recordings import recording

SCRIPTS = Path(__file__).resolve().parent / "scripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run cases.

    Attributes:
        folder: parent of the run folders, one per case.
        engine, gpus, images: as for `tfbench bench`.
        cpus: CPUs for cases that are not pinned to others.
    """

    folder: Path
    engine: str = "docker"
    gpus: str = "0"
    images: Mapping[str, str] = field(default_factory=dict)
    cpus: str = ""


def finished_run(name: str, settings: Settings) -> Path | None:
    """Return a case's run folder; None if its run is not finished."""
    path = settings.folder / name
    return path if (path / "stops.json").exists() else None


def script_of(case: Case) -> Path:
    """Return the path of a case's script."""
    return SCRIPTS / f"{case.script}.py"


def prepared_case(case: Case, settings: Settings) -> Prepared:
    """Prepare the run of a case in its environment.

    Raises:
        TfbenchError: as for `tfbench bench`.
    """
    options = Options(
        engine=settings.engine, device=case.device, gpus=settings.gpus, workloads=(str(script_of(case)),),
        params={name: str(value) for name, value in case.params.items()}, machine=False, images=settings.images,
        out=settings.folder, cpus=case.environment.cpus or settings.cpus, cpu_quota=case.environment.cpu_quota,
    )  # fmt: skip
    prepared = prepare(resolve(options), paths_here(), Silent())
    return replace(
        prepared,
        engine=PlantingEngine(prepared.engine, case.environment),
        folder=RunFolder(settings.folder / case.name),
    )


def run_case(case: Case, settings: Settings) -> Path:
    """Run a case and return its run folder.

    Raises:
        TfbenchError: as for `tfbench bench`; TrialError if the script failed.
    """
    path = settings.folder / case.name
    shutil.rmtree(path, ignore_errors=True)
    if case.recording:
        with tempfile.TemporaryDirectory() as folder:
            plant(recording(case.recording, Path(folder)), path, case.telemetry)
        return path
    for record in execute(prepared_case(case, settings), Silent()):
        if record.status is not Status.OK:
            (path / "stops.json").unlink(missing_ok=True)
            raise TrialError(f"{case.name} failed: {record.message}", hint=f"See {path}/trials/*/log.txt.")
    return path
