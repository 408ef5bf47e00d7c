"""The container of a trial: its specification, image, mounts, environment variables and limits."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import workloads
from harness.defaults import Profile
from harness.engines import (
    CUDA_CACHE_DIR,
    DATA_DIR,
    DOWNLOADS_DIR,
    FILE_DIR,
    OUT_DIR,
    WORKLOADS_DIR,
    ContainerSpec,
    GpuAccess,
    Mount,
)
from harness.fixes import fixes_for
from harness.images.local_environment import library_variables
from harness.model.device import cpu_numbers, device_kind
from harness.model.platform import ImageInfo
from harness.model.run import DataInfo, Manifest, PlannedTrial
from harness.model.workload import BESIDE, Data, Workload
from harness.options import Options
from harness.paths import Paths
from harness.run.catalogue import folder_sha256
from harness.run.resolve import Plan, hides, recorded
from harness.run.runner import Job
from harness.run.scripts import script_text
from harness.secrets import searched, secrets_beside
from workloads.protocol import MACHINE, PRIVATE, SOAK, Measuring, Script, Spec
from workloads.variants import BASELINE, FIXES, TUNED, measures_speed

# Entries below a script's folder among which links are looked for, and links that are followed.
_MOST_ENTRIES, _MOST_LINKS = 5_000, 50

# Variable of a library -> the folder that it downloads to.
_DOWNLOADS: Mapping[str, str] = {
    "KERAS_HOME": f"{DOWNLOADS_DIR}/keras",
    "TFDS_DATA_DIR": f"{DOWNLOADS_DIR}/tensorflow_datasets",
    "TFHUB_CACHE_DIR": f"{DOWNLOADS_DIR}/tensorflow_hub",
    "KAGGLEHUB_CACHE": f"{DOWNLOADS_DIR}/kagglehub",
    "HF_HOME": f"{DOWNLOADS_DIR}/huggingface",
    "SCIKIT_LEARN_DATA": f"{DOWNLOADS_DIR}/scikit-learn",
    "XDG_CACHE_HOME": f"{DOWNLOADS_DIR}/other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Inputs of containers: GPU access by device, images by target, and folders by data set."""

    access: Mapping[str, GpuAccess]
    images: Mapping[str, ImageInfo]
    data: Mapping[Data, tuple[Path, DataInfo]]


def make_job(plan: Plan, trial: PlannedTrial, inputs: Inputs, manifest: Manifest, paths: Paths) -> Job:
    """Return a planned trial with its container."""
    options = plan.options
    entry = plan.entry(trial.workload)
    image = inputs.images[plan.target(trial)]
    data = {dataset.name: inputs.data[dataset] for dataset in entry.workload.datasets}
    mounts = [
        Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),
        Mount(container=FILE_DIR, host=entry.folder),
        *(Mount(container=f"{DATA_DIR}/{name}", host=folder) for name, (folder, _) in data.items()),
        *(Mount(container=str(path), host=path) for path in options.mounts),
    ]
    # The engine's of a link is made where the link leads.
    mounts = [mount for mount in mounts if not (mount.host.is_symlink() and _below(mount, mounts))]
    places = {Path(mount.container) for mount in mounts}
    folders = {Path(FILE_DIR): entry.folder, **{path: path for path in options.mounts if path.is_dir()}}
    mounts += (mount for mount in linked(folders, entry.path) if Path(mount.container) not in places)
    modules = filter(None, (str(Path(WORKLOADS_DIR).parent), options.variables.get("PYTHONPATH")))
    environment = {**options.variables, "PYTHONPATH": os.pathsep.join(modules), "PYTHONUNBUFFERED": "1"}
    if trial.workload != MACHINE and (options.network or has_downloads(paths.cache, trial.workload)):
        mounts.append(
            Mount(container=DOWNLOADS_DIR, host=_downloads(paths.cache, trial.workload), read_only=False)
        )
        environment = {**_DOWNLOADS, **environment}
    if trial.gpus:
        mounts.append(Mount(container=CUDA_CACHE_DIR, host=_cuda_cache(image, paths), read_only=False))
        if not manifest.engine.isolated:
            # Images configure their library path; the local environment does not.
            environment |= library_variables(Path(image.reference))
        environment |= {"CUDA_CACHE_PATH": CUDA_CACHE_DIR, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    else:
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    folders_read = {entry.folder, entry.path.parent} if entry.is_own else set[Path]()
    beside = (secret for folder in folders_read for secret in secrets_beside(folder))
    hidden = tuple(sorted({*searched(options.environment, options.arguments), *beside}))
    if hidden or recorded(options) != options:
        # The specification is a file of the run.
        environment[PRIVATE] = json.dumps({"arguments": options.arguments, "hidden": hidden})
    container = ContainerSpec(
        image=image,
        command=("python3", "-m", "workloads.driver", OUT_DIR),
        environment=environment,
        hidden=hidden,
        out=paths.cache,
        mounts=tuple(mounts),
        trial_id=trial.id,
        run_id=manifest.run_id,
        cpus=",".join(map(str, cpu_numbers(options.cpus))),
        cpu_quota=options.cpu_quota,
        memory_bytes=manifest.memory_limit_bytes,
        gpu=inputs.access.get(trial.device),
        network=options.network and trial.workload != MACHINE,
    )
    return Job(
        planned=trial,
        spec=spec_for(
            trial,
            entry.workload,
            plan.profile,
            options,
            folder=str(Path(FILE_DIR) / entry.path.parent.relative_to(entry.folder)),
            data={name: f"{DATA_DIR}/{name}" for name in data},
            # Programs of other scripts may be too large to be kept; those for CPUs compile in a moment.
            keeps_programs=bool(trial.gpus) and not entry.is_own,
        ),
        container=container,
    )


def _below(mount: Mount, others: Iterable[Mount]) -> bool:
    return any(Path(each.container) in Path(mount.container).parents for each in others)


def linked(folders: Mapping[Path, Path], script: Path | None = None) -> list[Mount]:
    """Return what links below a container's folders lead to outside of them, each at the place where its link leads.

    Also links there, and, of a script that is a link, the folder it leads to, where Python finds modules. Not what
    would hide a part of the container, such as the Python of a virtual environment.
    """
    found: dict[str, Mount] = {}
    roots = {Path(os.path.realpath(host)) for host in folders.values()}
    # Folders with their places in a container; those that links lead to come last, because data sets are large.
    own = [(Path(os.path.realpath(host)), place) for place, host in folders.items()]
    others: list[tuple[Path, Path]] = []
    left = _MOST_ENTRIES
    while (pending := own or others) and left > 0 and len(found) < _MOST_LINKS:
        within, inside = pending.pop(0)
        with suppress(OSError):  # gone, or closed
            for entry in os.scandir(within):
                left -= 1
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False) and entry.name not in (".git", "__pycache__"):
                    pending.append((path, inside / entry.name))
                if not entry.is_symlink() or not _readable(path):
                    continue
                host = Path(os.path.realpath(path))
                place = Path(os.path.normpath(inside / path.readlink()))
                if script and path.samefile(script):
                    host, place = host.parent, place.parent
                around = any(host in root.parents for root in roots)
                there = any(each in (place, *place.parents) or place in each.parents for each in folders)
                if not around and not there and not _of_system(place) and str(place) not in found:
                    found[str(place)] = Mount(container=str(place), host=host)
                    if host.is_dir():
                        others.append((host, place))
    return [found[place] for place in sorted(found)][:_MOST_LINKS]


def _readable(path: Path) -> bool:
    """Return whether a container may read a path; that of root has a user of its own."""
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return os.access(path, os.R_OK) and (os.getuid() != 0 or path.stat().st_mode & needed == needed)


def _of_system(place: Path) -> bool:
    own = {WORKLOADS_DIR, DATA_DIR, OUT_DIR, FILE_DIR, CUDA_CACHE_DIR}
    if place.parts[1:2] == ("tfbench",):
        return len(place.parts) < 3 or any(folder in (str(place), *map(str, place.parents)) for folder in own)
    return hides(place) or place.parts[1] in ("usr", "opt", "etc", "bin", "sbin", "lib", "lib64")


def spec_for(
    trial: PlannedTrial,
    workload: Workload,
    profile: Profile,
    options: Options,
    *,
    folder: str,
    data: Mapping[str, str],
    keeps_programs: bool = False,
) -> Spec:
    """Return the specification for the container of `trial`.

    Args:
        folder: the script's folder in the container.
        data: data set -> its folder in the container.
        keeps_programs: see Spec.
    """
    device = device_kind(trial.device)
    measuring = {field.name: getattr(profile, field.name) for field in fields(Measuring)}
    if trial.workload == MACHINE:
        seconds = trial.params.get(SOAK, 0.0)
        measuring["full"] = False
        if seconds:
            measuring["windows"] = max(1, round(seconds))
        return Spec(
            scripts={}, variants=trial.variants, device=device, gpus=len(trial.gpus), data=data,
            seed=options.seed, soak_s=seconds, **measuring,
        )  # fmt: skip
    places = {dataset.constant: data[dataset.name] for dataset in workload.datasets if dataset.constant}
    measured = [variant for variant in trial.variants if measures_speed(variant)]
    scripts = {}
    own = (variant for variant in measured if variant != TUNED or workload.tuned)
    for variant in dict.fromkeys((BASELINE, *own)):
        file, text = script_text(workload, variant, device, {**places, **trial.params})
        scripts[variant] = Script(path=f"{folder}/{file}", text=text, module=workload.module)
    measuring["full"] = profile.full and trial.index == 0
    tries_fixes = FIXES in trial.variants or (TUNED in trial.variants and not workload.tuned)
    return Spec(
        scripts=scripts,
        fixes=fixes_for(scripts[BASELINE].text, device) if tries_fixes else {},
        arguments=recorded(options).arguments,
        call=options.call,
        variants=trial.variants,
        device=device,
        gpus=len(trial.gpus),
        data=data,
        mounts=tuple(str(path) for path in options.mounts),
        requests=workload.requests,
        # Each variant gets an equal share of 80 % of the trial's time limit.
        whole_s=0.8 * profile.limit_s / max(1, len(measured)) if profile.full else 0.0,
        # After so few steps, accuracy only shows whether the model learns at all: once is enough.
        evaluate=trial.index == 0,
        stall_s=profile.stall_s,
        seed=options.seed,
        keeps_programs=keeps_programs,
        image=workload.image,
        **measuring,
    )


def downloads_sources(plan: Plan, cache: Path) -> Mapping[str, str]:
    """Return the hashes of what scripts find downloaded; while they may download, it is not known."""
    names = [] if plan.options.network else [workload.name for workload in plan.workloads]
    return {
        f"{BESIDE}{name}, downloaded": folder_sha256(_downloads(cache, name))
        for name in names
        if has_downloads(cache, name)
    }


def has_downloads(cache: Path, name: str) -> bool:
    """Return whether a workload has downloaded anything in an earlier run; Keras leaves its settings alone."""
    folder = cache / "downloads" / name
    return any(path.is_file() and path.name != "keras.json" for path in folder.rglob("*"))


def _downloads(cache: Path, name: str) -> Path:
    """Create the folder for what a workload downloads."""
    folder = cache / "downloads" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cuda_cache(image: ImageInfo, paths: Paths) -> Path:
    """Create the cache for code that the driver compiles from PTX, which takes minutes on a new GPU."""
    cache = paths.cache / "cuda" / image.digest.rpartition(":")[2][:16]
    cache.mkdir(parents=True, exist_ok=True)
    return cache
