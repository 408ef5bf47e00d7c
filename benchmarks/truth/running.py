"""Run a case as `tfbench bench` would run its workload file, with short windows, and keep the run folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.truth.case import Case
from benchmarks.truth.planting import PlantingEngine
from benchmarks.truth.standin_cases import plant
from harness.defaults import PROFILES
from harness.errors import TrialError
from harness.model.options import Options
from harness.model.run import Status
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.prepare import Prepared, execute, prepare
from harness.run.resolve import resolve
from harness.run.store import RunFolder
from tests.recordings import recording

WORKLOADS = Path(__file__).resolve().parent / "workloads"
# Those that are not in a file of their own name.
FILES = dict.fromkeys(("reading", "disk", "jpegs", "augmenting", "generating", "caching"), "inputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How cases are run.

    Attributes:
        folder: where run folders are kept, one a case.
        engine, gpus: as for `tfbench bench`.
    """

    folder: Path
    engine: str = "docker"
    gpus: str = "0"


# The quick profile, shortened: all that a verdict is made of, from a single trial.
PROFILE = replace(
    PROFILES["quick"],
    name="truth",
    trials=1,
    max_trials=1,
    windows=3,
    window_s=0.5,
    warmup_s=1.5,
    analysis_windows=3,
    analysis_window_s=0.4,
    analysis_warmup_s=1.0,
    stall_s=120.0,
    limit_s=300.0,
)


def finished_run(name: str, settings: Settings) -> Path | None:
    """Return the run folder of the case of that name if it has been run to its end."""
    path = settings.folder / name
    return path if (path / "stops.json").exists() else None


def file_of(case: Case) -> Path:
    """Return the file that declares a case's workload."""
    return WORKLOADS / f"{FILES.get(case.workload, case.workload)}.py"


def prepared_case(case: Case, settings: Settings) -> Prepared:
    """Return the run of a case, in its environment, ready to start.

    Raises:
        TfbenchError: as for `tfbench bench`.
    """
    options = Options(
        engine=settings.engine,
        device=case.device,
        gpus=settings.gpus,
        files=(file_of(case),),
        params={name: str(value) for name, value in case.params.items()},
        trials=1,
        out=settings.folder,
        cpus=case.environment.cpus,
        cpu_quota=case.environment.cpu_quota,
    )
    resolved, name = resolve(options), f"truth-{case.workload}"
    resolved = replace(
        resolved,
        profile=PROFILE,
        # A file may declare others too.
        entries=tuple(entry for entry in resolved.entries if entry.workload.name == name),
        planned=tuple(trial for trial in resolved.planned if trial.workload == name),
    )
    prepared = prepare(resolved, paths_here(), Silent())
    return replace(
        prepared,
        engine=PlantingEngine(prepared.engine, case.environment),
        folder=RunFolder(settings.folder / case.name),
    )


def run_case(case: Case, settings: Settings) -> Path:
    """Run a case and return its run folder.

    Raises:
        TfbenchError: as for `tfbench bench`; TrialError when the workload itself failed.
    """
    path = settings.folder / case.name
    shutil.rmtree(path, ignore_errors=True)
    if case.recording:
        with tempfile.TemporaryDirectory() as folder:
            plant(recording(case.recording, Path(folder)), path, case.telemetry)
        return path
    (record,) = execute(prepared_case(case, settings), Silent())
    if record.status is not Status.OK:
        (path / "stops.json").unlink(missing_ok=True)
        raise TrialError(f"{case.name} failed: {record.message}", hint=f"See {path}/trials/*/log.txt.")
    return path
