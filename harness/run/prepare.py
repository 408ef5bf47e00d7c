"""The side effects of `tfbench bench`, in order: engine, images, data, manifest, trials."""

from __future__ import annotations

import datetime
import secrets
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

import workloads
from harness import __version__
from harness.data.datasets import ensure_data
from harness.data.weights import keep_weights, weights_infos
from harness.defaults import MEMORY_SHARE, TMP_BYTES
from harness.engines import (
    CUDA_CACHE_DIR,
    DATA_DIR,
    FILE_DIR,
    OUT_DIR,
    WEIGHTS_DIR,
    WORKLOADS_DIR,
    ContainerSpec,
    Engine,
    GpuAccess,
    Mount,
)
from harness.engines.connect import connect
from harness.engines.gpu import check_driver, choose_access
from harness.errors import StoreError
from harness.images.environment import library_variables
from harness.model.options import Options
from harness.model.run import (
    DataInfo,
    EngineInfo,
    ImageInfo,
    Manifest,
    PlannedTrial,
    WeightsInfo,
)
from harness.paths import Paths
from harness.progress import Progress
from harness.run.catalogue import Entry, sources
from harness.run.plan import spec_for
from harness.run.prices import read_prices
from harness.run.provision import provide_images
from harness.run.resolve import Resolved, resolve
from harness.run.runner import Job, Runner
from harness.run.store import RunFolder, TrialRecord, read_run
from harness.system.cloud import cloud_facts
from harness.system.file_locks import default_path, measuring
from harness.system.machine import host_facts, system_description
from harness.telemetry.sources import default_sources

# How much of a trial its windows are taken to be where requests are timed after them.
WITH_REQUESTS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that is ready to start: everything is built and fetched; nothing is written yet."""

    resolved: Resolved
    engine: Engine
    folder: RunFolder
    manifest: Manifest
    jobs: tuple[Job, ...]


def prepare(
    resolved: Resolved,
    paths: Paths,
    progress: Progress,
    *,
    command: str = "",
) -> Prepared:
    """Reach the engine and make sure of images and data.

    Args:
        command: the command line, for the record.

    Raises:
        EngineError, GpuError, ImageError, DataError, StoreError, UsageError: see there; nothing has run yet.
    """
    stage = _set_stage(resolved, paths, progress)
    manifest = _manifest(resolved, stage, paths, command)
    folder = RunFolder(resolved.options.out / manifest.run_id)
    return _prepared(resolved, stage, folder, manifest, paths)


def resume(path: Path, paths: Paths, progress: Progress) -> Prepared:
    """Make ready the trials of an interrupted run that have not finished, exactly as they were planned.

    Raises:
        StoreError: not a run, or what it ran in is no longer the same; mixed trials would not compare.
        EngineError, GpuError, ImageError, DataError, UsageError: as for prepare.
    """
    run = read_run(path)
    # A plan may say less than the options it was made from: a rerun has just the trials that were run before.
    resolved = replace(resolve(run.manifest.options), profile=run.manifest.profile, planned=run.planned)
    stage = _set_stage(resolved, paths, progress)
    if others := _others(run.manifest, resolved, stage):
        stage.engine.close()
        raise StoreError(
            f"Changed since {path} started: {', '.join(others)}.",
            hint="Start a new run: these trials would not be comparable.",
        )
    return _prepared(resolved, stage, RunFolder(path), run.manifest, paths)


def _others(manifest: Manifest, resolved: Resolved, stage: _Stage) -> list[str]:
    """Name what trials of a run would now differ in from those that it has."""
    same = {
        "images": {image.target: image.digest for image in manifest.images}
        == {target: image.digest for target, image in stage.images.items()},
        "GPUs": [gpu.uuid for gpu in manifest.gpus] == [gpu.uuid for gpu in resolved.gpus],
        "weights": manifest.weights == _weights(resolved, stage),
        "data": {data.workload: (data.kind, data.sha256) for data in manifest.data}
        == {name: (info.kind, info.sha256) for name, (_, info) in stage.data.items()},
        "workload files": manifest.sources == sources(resolved.entries),
    }
    return [name for name, alike in same.items() if not alike]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What trials need: the engine, how containers get each device's GPUs, images by target, data."""

    engine: Engine
    info: EngineInfo
    access: Mapping[str, GpuAccess]
    images: Mapping[str, ImageInfo]
    data: Mapping[str, tuple[Path, DataInfo]]
    weights: tuple[Path, str] | None


def _set_stage(resolved: Resolved, paths: Paths, progress: Progress) -> _Stage:
    options = resolved.options
    on_gpus = [trial for trial in resolved.planned if trial.gpus]
    for remark in check_driver(resolved.gpus) if on_gpus else ():
        progress.line(remark)
    engine, info = connect(options.engine, progress)
    engine.remove_stale()
    access = {
        device: choose_access(info, tuple(resolved.gpus[i] for i in positions))
        for device, positions in {trial.device: trial.gpus for trial in on_gpus}.items()
    }
    for target, reference in options.images.items():
        if target not in resolved.targets:
            progress.line(f"--image {target}={reference} is not used: no trial of this run needs that image.")
    images = provide_images(
        engine, resolved.targets, options.images, options.base, paths.checkout, paths.cache, progress
    )
    data = {
        entry.workload.name: ensure_data(
            entry.workload.data, entry.workload.name, paths.cache, options.data, options.seed, progress
        )
        for entry in resolved.entries
    }
    weights = keep_weights(options.weights, paths.cache) if options.weights else None
    return _Stage(engine=engine, info=info, access=access, images=images, data=data, weights=weights)


def _prepared(
    resolved: Resolved, stage: _Stage, folder: RunFolder, manifest: Manifest, paths: Paths
) -> Prepared:
    jobs = tuple(_job(resolved, trial, manifest.run_id, stage, paths) for trial in resolved.planned)
    return Prepared(resolved=resolved, engine=stage.engine, folder=folder, manifest=manifest, jobs=jobs)


def execute(
    prepared: Prepared,
    progress: Progress,
    ended: Callable[[TrialRecord], None] | None = None,
    *,
    wait_s: float = 0.0,
) -> tuple[TrialRecord, ...]:
    """Run the trials; hold the machine's lock meanwhile.

    Args:
        ended: called with each trial's record once its folder is complete.
        wait_s: how long to wait while another run holds the lock.

    Raises:
        BusyError, EngineError, Interrupted, StoreError: every trial that had ended is in the run folder.
    """
    options = prepared.resolved.options
    runner = Runner(
        engine=prepared.engine,
        folder=prepared.folder,
        profile=prepared.resolved.profile,
        sources=default_sources if options.rate_hz else tuple,
        interval_s=1 / options.rate_hz if options.rate_hz else 0.0,
        progress=progress,
        ended=ended,
    )
    try:
        with measuring(default_path(), wait_s=wait_s):
            if not prepared.folder.exists():
                declared = tuple(entry.workload for entry in prepared.resolved.entries)
                prepared.folder.create(prepared.manifest, declared, prepared.resolved.planned)
            return runner.run(prepared.jobs)
    finally:
        prepared.engine.close()


def _manifest(resolved: Resolved, stage: _Stage, paths: Paths, command: str) -> Manifest:
    options = resolved.options
    kinds = sorted({access.kind for access in stage.access.values()})
    engine = replace(stage.info, gpu_access=",".join(kinds))
    now = datetime.datetime.now(datetime.UTC)
    software = {target: image.reference for target, image in stage.images.items()}
    return Manifest(
        run_id=new_run_id(now),
        created=now.isoformat(timespec="seconds"),
        tfbench_version=__version__,
        commit=commit_of(paths.checkout),
        command=command,
        engine=engine,
        images=tuple(stage.images.values()),
        data=tuple(info for _, info in stage.data.values()),
        gpus=resolved.gpus,
        system=system_description(resolved.gpus, engine, software),
        host_facts={**host_facts(folder=options.out), **(cloud_facts() if options.cloud_metadata else {})},
        options=options,
        profile=resolved.profile,
        memory_limit_bytes=_memory_limit(options),
        prices=read_prices(options.price) if options.price else None,
        weights=_weights(resolved, stage),
        sources=sources(resolved.entries),
    )


def _weights(resolved: Resolved, stage: _Stage) -> tuple[WeightsInfo, ...]:
    sha256 = stage.weights[1] if stage.weights else ""
    return weights_infos(resolved.options.weights, sha256, [entry.workload for entry in resolved.entries])


def _memory_limit(options: Options) -> int:
    return options.memory_bytes or int(psutil.virtual_memory().total * MEMORY_SHARE)


def _job(resolved: Resolved, trial: PlannedTrial, run_id: str, stage: _Stage, paths: Paths) -> Job:
    options = resolved.options
    entry = resolved.entry(trial.workload)
    image = stage.images[resolved.target(trial)]
    data, info = stage.data[trial.workload]
    weights = options.weights if entry.workload.takes_weights else None
    spec = spec_for(
        trial,
        resolved.profile,
        file=f"{FILE_DIR}/{entry.path.name}" if entry.external else entry.path.name,
        data_dir=DATA_DIR,
        weights=f"{WEIGHTS_DIR}/{weights.name}" if weights else "",
        seed=options.seed,
        image=entry.workload.image,
    )
    container = ContainerSpec(
        image=image,
        command=("python3", "-m", "workloads.driver", f"{OUT_DIR}/spec.json", f"{OUT_DIR}/events.jsonl"),
        environment=_environment(bool(trial.gpus), image, stage.info),
        out=paths.cache,
        mounts=_mounts(entry, data, stage.weights if weights else None, bool(trial.gpus), image, paths),
        trial_id=trial.id,
        run_id=run_id,
        cpus=options.cpus,
        cpu_quota=options.cpu_quota,
        memory_bytes=_memory_limit(options),
        # For workloads that may be asked to read their data from memory (storage=ram).
        tmp_bytes=TMP_BYTES + 2 * info.size_bytes,
        gpu=stage.access.get(trial.device),
    )
    gpus = {f"gpu{i}": resolved.gpus[i].mig_uuid or resolved.gpus[i].uuid for i in trial.gpus}
    share = WITH_REQUESTS if entry.workload.requests else 1.0
    return Job(planned=trial, spec=spec, container=container, gpus=gpus, windows_share=share)


def _environment(gpu: bool, image: ImageInfo, info: EngineInfo) -> Mapping[str, str]:
    shared = {"PYTHONPATH": str(Path(WORKLOADS_DIR).parent), "PYTHONUNBUFFERED": "1"}
    if not gpu:
        return {**shared, "CUDA_VISIBLE_DEVICES": "-1"}
    # An image knows its own libraries; the local environment's Python does not.
    libraries = {} if info.isolated else library_variables(Path(image.reference))
    return {**shared, **libraries, "CUDA_CACHE_PATH": CUDA_CACHE_DIR, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def _mounts(
    entry: Entry, data: Path, weights: tuple[Path, str] | None, gpu: bool, image: ImageInfo, paths: Paths
) -> tuple[Mount, ...]:
    mounts = [
        Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),
        Mount(container=DATA_DIR, host=data),
    ]
    if weights:
        mounts.append(Mount(container=WEIGHTS_DIR, host=weights[0]))
    if entry.external:
        mounts.append(Mount(container=FILE_DIR, host=entry.path.parent))
    if gpu:
        # Machine code that the driver compiles from PTX is kept: on a new GPU that takes minutes.
        name = image.digest.rpartition(":")[2][:16]
        cache = paths.cache / "cuda" / name
        cache.mkdir(parents=True, exist_ok=True)
        mounts.append(Mount(container=CUDA_CACHE_DIR, host=cache, read_only=False))
    return tuple(mounts)


def new_run_id(now: datetime.datetime) -> str:
    """Return a run's folder name: it sorts by time and does not collide."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def commit_of(checkout: Path) -> str:
    """Return the checkout's commit, with "-dirty" when files differ from it; "" outside a repository."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
