"""Run a case as `tfbench bench` would run its workload file, with short windows, and keep the run folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.truth.case import Case
from benchmarks.truth.planting import PlantingEngine
from benchmarks.truth.standin_cases import plant
from harness.cli.app import paths
from harness.errors import TrialError
from harness.model.options import Options
from harness.model.run import Status
from harness.progress import Silent
from harness.run.plan import Profile, profile_named
from harness.run.prepare import Prepared, execute, prepare
from harness.run.resolve import resolve
from harness.run.store import RunFolder
from tests.recordings import recording

WORKLOADS = Path(__file__).resolve().parent / "workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How cases are run.

    Attributes:
        folder: where run folders are kept, one a case.
        engine, gpus, images: as for `tfbench bench`.
        windows, window_s, warmup_s: shorter than the quick profile's.
        analysis_window_s, analysis_warmup_s: the same for variants that only serve the breakdown.
    """

    folder: Path
    engine: str = "docker"
    gpus: str = "0"
    images: Mapping[str, str] = field(default_factory=dict)
    windows: int = 3
    window_s: float = 0.5
    warmup_s: float = 1.5
    analysis_window_s: float = 0.4
    analysis_warmup_s: float = 1.0


def truth_profile(settings: Settings) -> Profile:
    """Return the quick profile, shortened: all that a verdict is made of, from a single trial."""
    return replace(
        profile_named("quick"),
        name="truth",
        purpose="planted bottlenecks",
        trials=1,
        max_trials=1,
        windows=settings.windows,
        window_s=settings.window_s,
        warmup_s=settings.warmup_s,
        analysis_window_s=settings.analysis_window_s,
        analysis_windows=settings.windows,
        analysis_warmup_s=settings.analysis_warmup_s,
        stall_s=120.0,
        limit_s=300.0,
    )


def kept(case: Case, settings: Settings) -> Path | None:
    """Return the case's run folder if it has been run to its end."""
    path = settings.folder / case.name
    return path if (path / "stops.json").exists() else None


def prepared_case(case: Case, settings: Settings) -> Prepared:
    """Return the run of a case, amid its surroundings, ready to start.

    Raises:
        TfbenchError: as for `tfbench bench`.
    """
    options = Options(
        engine=settings.engine,
        device=case.device,
        gpus=settings.gpus,
        files=(WORKLOADS / f"{case.workload}.py",),
        images=settings.images,
        params={name: str(value) for name, value in case.params.items()},
        trials=1,
        out=settings.folder,
        cpus=case.around.cpus,
        cpu_quota=case.around.cpu_quota,
    )
    resolved = replace(resolve(options), profile=truth_profile(settings))
    prepared = prepare(resolved, paths(), Silent())
    return replace(
        prepared,
        engine=PlantingEngine(prepared.engine, case.around),
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
