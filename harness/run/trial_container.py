"""The container of a trial: image, mounts, environment variables and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import workloads
from harness.cpuset import cpu_numbers
from harness.defaults import TMP_BYTES
from harness.engines import (
    CUDA_CACHE_DIR,
    DATA_DIR,
    FILE_DIR,
    OUT_DIR,
    WEIGHTS_DIR,
    WORKLOADS_DIR,
    ContainerSpec,
    GpuAccess,
    Mount,
)
from harness.images.local_environment import library_variables
from harness.model.platform import ImageInfo
from harness.model.run import DataInfo, Manifest, PlannedTrial
from harness.paths import Paths
from harness.run.plan import spec_for
from harness.run.resolve import Resolved
from harness.run.runner import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Inputs of containers: GPU access by device, images by target, data by workload, folder and hash of weights."""

    access: Mapping[str, GpuAccess]
    images: Mapping[str, ImageInfo]
    data: Mapping[str, tuple[Path, DataInfo]]
    weights: tuple[Path, str] | None


def make_job(
    resolved: Resolved, trial: PlannedTrial, inputs: Inputs, manifest: Manifest, paths: Paths
) -> Job:
    """Return a planned trial with its container."""
    options = resolved.options
    entry = resolved.entry(trial.workload)
    image = inputs.images[resolved.target(trial)]
    data, info = inputs.data[trial.workload]
    mounts = [
        Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),
        Mount(container=DATA_DIR, host=data),
    ]
    environment = {"PYTHONPATH": str(Path(WORKLOADS_DIR).parent), "PYTHONUNBUFFERED": "1"}
    file, weights = entry.path.name, ""
    if entry.external:
        mounts.append(Mount(container=FILE_DIR, host=entry.path.parent))
        file = f"{FILE_DIR}/{file}"
    if inputs.weights and options.weights and entry.workload.takes_weights:
        mounts.append(Mount(container=WEIGHTS_DIR, host=inputs.weights[0]))
        weights = f"{WEIGHTS_DIR}/{options.weights.name}"
    if trial.gpus:
        mounts.append(Mount(container=CUDA_CACHE_DIR, host=_cuda_cache(image, paths), read_only=False))
        # Images configure their library path; the local environment does not.
        environment |= {} if manifest.engine.isolated else library_variables(Path(image.reference))
        environment |= {"CUDA_CACHE_PATH": CUDA_CACHE_DIR, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    else:
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    container = ContainerSpec(
        image=image,
        command=("python3", "-m", "workloads.driver", f"{OUT_DIR}/spec.json", f"{OUT_DIR}/events.jsonl"),
        environment=environment,
        out=paths.cache,
        mounts=tuple(mounts),
        trial_id=trial.id,
        run_id=manifest.run_id,
        cpus=",".join(map(str, cpu_numbers(options.cpus))),
        cpu_quota=options.cpu_quota,
        memory_bytes=manifest.memory_limit_bytes,
        # Leaves space for workloads that copy their data into memory (storage=ram).
        tmp_bytes=TMP_BYTES + 2 * info.size_bytes,
        gpu=inputs.access.get(trial.device),
    )
    return Job(
        planned=trial,
        spec=spec_for(
            trial,
            resolved.profile,
            file=file,
            data_dir=DATA_DIR,
            weights=weights,
            seed=options.seed,
            image=entry.workload.image,
        ),
        container=container,
    )


def _cuda_cache(image: ImageInfo, paths: Paths) -> Path:
    """Create the cache for code that the driver compiles from PTX, which takes minutes on a new GPU."""
    cache = paths.cache / "cuda" / image.digest.rpartition(":")[2][:16]
    cache.mkdir(parents=True, exist_ok=True)
    return cache
