"""Prepare and execute a run: engine, images, data, manifest, trials."""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

import psutil

from harness import __version__
from harness.data.datasets import ensure_data
from harness.defaults import MEMORY_SHARE
from harness.engines import AUTO, DATA_DIR, LOCAL, Engine, used_engine
from harness.engines.container_settings import check_mountable
from harness.engines.docker import DockerEngine
from harness.engines.gpu_access import choose_access
from harness.engines.local import UNPROTECTED, WARNING, LocalEngine
from harness.errors import EngineError, StoreError, UsageError
from harness.images.builder import ImageBuilder
from harness.images.extra import IMPORTED
from harness.images.local_environment import ensure_environment, local_version
from harness.images.recipes import PYTHON_VERSION, Recipes
from harness.model.platform import EngineInfo, ImageInfo
from harness.model.run import Manifest, PlannedTrial, Run, Status, Trial
from harness.model.workload import BESIDE, Beside, FileState
from harness.paths import Paths, require_writable
from harness.progress import Progress
from harness.run.catalogue import Entry, beside, python_below, sources
from harness.run.imports import check_names, check_trains, distributions
from harness.run.resolve import Plan, read_prices, recorded, resolve, revealed
from harness.run.runner import Job, Runner
from harness.run.started import identity, remember
from harness.run.store import BESIDE_FILE, RunFolder, as_json, read_run
from harness.run.trial_container import Inputs, downloads_sources, make_job
from harness.secrets import secrets_in
from harness.system.cloud import cloud_facts, provider_of, watching_for_end
from harness.system.gpus import check_driver
from harness.system.health_readings import HealthWatch, watching
from harness.system.machine import host_facts, system_description
from harness.system.shared_files import default_path, measuring, read_once, remove_abandoned
from harness.telemetry.sampler import default_sources
from harness.untrusted import printable, sanitized
from harness.wording import listed
from workloads.cells import left_out, place
from workloads.hiding import without_secrets
from workloads.protocol import TENSORFLOW, shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that is ready to start: images and data are there, but its folder is not written yet."""

    plan: Plan
    engine: Engine
    folder: RunFolder
    manifest: Manifest
    jobs: tuple[Job, ...]
    sboms: Mapping[str, bytes] = field(default_factory=dict)  # target -> CycloneDX document
    beside: Beside = field(default_factory=Beside)
    mounted: Mapping[str, FileState] = field(default_factory=dict)

    @property
    def files(self) -> Mapping[str, bytes]:
        """What the run folder has from the start, besides manifest and plan."""
        bills = {f"sbom-{target}.cdx.json": text for target, text in self.sboms.items()}
        return {**bills, BESIDE_FILE: as_json(self.beside)}

    @property
    def run(self) -> Run:
        """The run without trials."""
        return Run(
            manifest=self.manifest,
            workloads=self.plan.workloads,
            planned=self.plan.planned,
            trials=(),
        )


def prepare(
    plan: Plan,
    paths: Paths,
    progress: Progress,
    *,
    command: str = "",
    rerun_of: str = "",
    run_id: str = "",
) -> Prepared:
    """Connect to the engine; build images and fetch data as needed.

    Args:
        run_id: id of the run to continue, "" for a new one.

    Raises:
        EngineError, GpuError, ImageError, DataError, StoreError, UsageError: preparation failed.
    """
    for remark in plan.remarks:
        progress.line(remark)
    if any(trial.gpus for trial in plan.planned):
        for warning in check_driver(plan.gpus):
            progress.line(warning)
    if not run_id:
        # Otherwise noticed only after the images are built, which takes minutes.
        require_writable(plan.options.out)
    for entry in plan.entries:
        if entry.is_own:
            _look_at(entry, progress)
    engine = _connect(plan.options.engine, progress)
    if isinstance(engine, DockerEngine):
        check_mountable(plan.options.out, "Rename it, or choose another folder with --out.")
        check_mountable(paths.cache, "Rename it, or choose another folder with TFBENCH_CACHE.")
        for folder in (paths.checkout, *plan.options.mounts):  # those of scripts are printable
            check_mountable(folder)
    engine.remove_stale()
    remove_abandoned(paths.cache)
    plan = _with_packages(plan, paths, progress, local=not isinstance(engine, DockerEngine))
    inputs = _inputs(plan, engine, paths, progress)
    files = beside(plan.entries)
    manifest = _manifest(plan, engine.info, inputs, paths, run_id, files)
    if not run_id:
        remember(identity(manifest), paths)
    sboms = _sboms(manifest, engine, paths, progress)
    hashes = {target: hashlib.sha256(text).hexdigest() for target, text in sboms.items()}
    images = (replace(image, sbom_sha256=hashes.get(image.target, "")) for image in manifest.images)
    return Prepared(
        plan=plan,
        engine=engine,
        folder=RunFolder(plan.options.out / manifest.run_id),
        manifest=replace(manifest, command=command, rerun_of=rerun_of, images=tuple(images)),
        jobs=tuple(make_job(plan, trial, inputs, manifest, paths) for trial in plan.planned),
        sboms=sboms,
        beside=files,
        mounted=python_below(plan.options.mounts),
    )


def _look_at(entry: Entry, progress: Progress) -> None:
    """Report what is left out of a user's notebook, and what of a script should not be in a report.

    Raises:
        UsageError: the script certainly has nothing to measure, or a module with a name that is taken, or a path that a
            page cannot show.
    """
    if (path := printable(str(entry.path))) != str(entry.path):
        raise UsageError(
            f"{path} has characters in its path that cannot be printed, or reorder others.",
            hint="Rename it, or use a locale of UTF-8: LC_ALL=C.UTF-8.",
        )
    text = entry.workload.scripts[entry.workload.file]
    if lines := left_out(text):
        said = (shortened(without_secrets(line), 60) for line in lines)
        progress.line(f"{entry.path.name}: left out {'; '.join(said)}")
    for line, name in secrets_in(text):
        progress.line(
            f"{place(entry.path.name, text, line)}: {name} looks like a secret, and reports contain the script. Take "
            "it from a variable, and pass that with --env, which is not recorded."
        )
    check_names(entry.folder, entry.path, text)
    if entry.workload.image == TENSORFLOW:
        check_trains(entry.folder, entry.path, text)


def _with_packages(plan: Plan, paths: Paths, progress: Progress, *, local: bool) -> Plan:
    """Return what will be run with the versions of all libraries that are added to its images."""
    names = plan.options.packages
    if IMPORTED in names:
        found = [
            distributions(entry.folder, entry.path, entry.workload.scripts[entry.workload.file])
            for entry in plan.entries
            if entry.is_own
        ]
        names = tuple(
            dict.fromkeys([*(name for name in names if name != IMPORTED), *chain.from_iterable(found)])
        )
    if not names and IMPORTED not in plan.options.packages:
        return plan
    if not (local or set(plan.targets) - plan.options.images.keys()):
        raise UsageError(
            "With --image, --with would have no effect: libraries are added to tfbench's own images.",
            hint="Leave out --with, and build an image FROM yours that has them.",
        )
    version = local_version() if local else PYTHON_VERSION
    recipes = Recipes(paths.checkout / "images", packages=names)
    added: list[str] = []
    for target in [target for target in plan.targets if target not in plan.options.images]:
        recipes.resolve(target, paths.cache, progress, version)
        added += recipes.added(target)
    progress.line(f"Added to the image: {', '.join(dict.fromkeys(added)) or 'nothing, it has all of them'}")
    return replace(plan, options=replace(plan.options, packages=tuple(dict.fromkeys(added))))


def _connect(name: str, progress: Progress) -> Engine:
    """Connect to an engine by name and report which one; "auto" uses Docker if it answers, else the local engine.

    Raises:
        EngineError: "docker" was requested and none answers.
    """
    if name != LOCAL:
        try:
            engine = DockerEngine.connect()
        except EngineError as error:
            if name != AUTO:
                raise
            progress.line(error.message)
        else:
            progress.line(f"Engine: {engine.info.name} {engine.info.version}")
            return engine
    progress.line(WARNING)
    local = LocalEngine()
    if not local.protects:
        progress.line(UNPROTECTED)
    return local


def resume(path: Path, paths: Paths, progress: Progress, values: Mapping[str, str] = os.environ) -> Prepared:
    """Prepare the unfinished trials of an interrupted run, exactly as planned.

    Args:
        values: variables with what the run does not record of its options.

    Raises:
        BusyError: another process is continuing it.
        StoreError: not a run, or images, GPUs, or what its trials read changed, so that others would not be comparable.
        EngineError, GpuError, ImageError, DataError, UsageError: as for prepare.
    """
    run = read_run(path)
    if run.in_progress:
        raise RunFolder(path).busy()
    # The plan of a rerun has fewer trials than its options imply.
    options = replace(revealed(run.manifest.options, values), engine=used_engine(run.manifest.engine))
    plan = replace(resolve(options), profile=run.manifest.profile, planned=run.planned)
    prepared = prepare(plan, paths, progress, run_id=run.manifest.run_id)
    changes = _changes_since(run.manifest, prepared.manifest)
    before = RunFolder(path).beside()
    for entry in plan.entries:
        name = entry.workload.name
        if before is None or name not in before.scripts:
            kinds = [kind for kind in (name, f"{BESIDE}{name}") if kind in run.manifest.sources]
            changes += [
                kind for kind in kinds if run.manifest.sources[kind] != prepared.manifest.sources[kind]
            ]
            continue
        read = _read_by_trials(run, RunFolder(path), name)
        # Scripts by their text, because a notebook may be saved with other outputs.
        now = sanitized(entry.workload.scripts, verbatim=True)  # as those of a run are read
        scripts = next((workload.scripts for workload in run.workloads if workload.name == name), {})
        changes += sorted(
            script for script in scripts.keys() | now.keys() if scripts.get(script) != now.get(script)
        )
        changed = [
            file
            for file in changed_files(
                before.scripts[name],
                {printable(file): state for file, state in prepared.beside.scripts[name].items()},
            )
            if file not in (*now, str(entry.path.relative_to(entry.folder)))
        ]
        changes += [file for file in changed if read is None or file in read]
        if others := [file for file in changed if read is not None and file not in read]:
            progress.line(f"Changed next to {entry.path.name}, which has not read it: {listed(others)}")
    if changes:
        prepared.engine.close()
        raise StoreError(
            f"Changed since {path} started: {listed(changes)}.",
            hint="Restore what changed, or start a new run: these trials would not be comparable.",
        )
    return replace(prepared, folder=RunFolder(path), manifest=run.manifest)


def _changes_since(recorded: Manifest, current: Manifest) -> list[str]:
    """Return what changed since the run started and would make its trials incomparable, except for user's scripts."""
    users = {name.removeprefix(BESIDE) for name in recorded.sources if name.startswith(BESIDE)}

    def compared(manifest: Manifest) -> Mapping[str, object]:
        own = {
            name: value for name, value in manifest.sources.items() if name.removeprefix(BESIDE) not in users
        }
        return {
            "images": {image.target: image.digest for image in manifest.images},
            "GPUs": [gpu.uuid for gpu in manifest.gpus],
            "data": {(data.workload, data.name): (data.kind, data.sha256) for data in manifest.data},
            **{"tfbench itself" if name == "workloads" else name: value for name, value in own.items()},
        }

    before = compared(recorded)
    return [name for name, value in compared(current).items() if value != before.get(name)]


def changed_files(before: Mapping[str, FileState], now: Mapping[str, FileState]) -> list[str]:
    """Return the files that differ, are gone, or are new."""
    return sorted(
        name
        for name in before.keys() | now.keys()
        if name not in before or not before[name].same(now.get(name))
    )


def _changed(prepared: Prepared, planned: PlannedTrial) -> frozenset[str]:
    """Return the files beside the user's script of a trial, and mounted code, that have changed since the plan.

    Not the script itself: it runs as it was then. Mounted files have absolute paths.
    """
    before = prepared.beside.scripts.get(planned.workload)
    if before is None:
        return frozenset()
    (entry,) = entries = [each for each in prepared.plan.entries if each.workload.name == planned.workload]
    own = {*entry.workload.scripts, str(entry.path.relative_to(entry.folder))}
    changed = changed_files(before, beside(entries).scripts[planned.workload])
    mounted = changed_files(prepared.mounted, python_below(prepared.plan.options.mounts))
    return frozenset(printable(each) for each in (*changed, *mounted) if each not in own)


def _read_by_trials(run: Run, folder: RunFolder, workload: str) -> frozenset[str] | None:
    """Return the files beside a script that its finished trials have opened; None if not known."""
    found: set[str] = set()
    for trial in run.trials:
        if trial.workload == workload and trial.status is Status.OK:
            names = folder.opened(trial.id)
            if names is None:
                return None
            found |= names
    return frozenset(found)


def execute(
    prepared: Prepared,
    progress: Progress,
    on_trial_end: Callable[[Trial], None] | None = None,
    *,
    wait_s: float = 0.0,
) -> tuple[Trial, ...]:
    """Run the trials while holding the machine's lock; wait up to `wait_s` for another run that holds it.

    Raises:
        BusyError, EngineError, Interrupted, StoreError: trials that ended before are in the run folder.
    """
    provider = provider_of() if prepared.plan.options.cloud_metadata else ""
    try:
        with measuring(default_path(), wait_s=wait_s), watching_for_end(provider) as announced_end:
            runner = Runner(
                engine=prepared.engine,
                folder=prepared.folder,
                options=prepared.plan.options,
                profile=prepared.plan.profile,
                sources=default_sources,
                progress=progress,
                on_trial_end=on_trial_end,
                announced_end=announced_end,
                changed=partial(_changed, prepared),
            )
            if not prepared.folder.exists():
                prepared.folder.create(prepared.run, prepared.files)
            progress.line(f"Run folder: {prepared.folder.path}")
            data = _data_folders(prepared)
            read_once(data, psutil.virtual_memory().available // 2)
            watch = HealthWatch(
                prepared.manifest.gpus,
                prepared.manifest.options.cpus,
                next(iter(data), prepared.folder.path),
            )
            earlier = prepared.folder.health()
            with watching(watch, earlier, prepared.folder.write_health):
                trials = runner.run(prepared.jobs)
            if earlier and not trials:  # all had ended: the machine may have changed since
                prepared.folder.write_health(earlier)
            return trials
    finally:
        prepared.engine.close()


def _data_folders(prepared: Prepared) -> list[Path]:
    """Return the folders of the data sets, each once, in the order of the trials."""
    mounts = (mount for job in prepared.jobs for mount in job.container.mounts)
    return list(dict.fromkeys(mount.host for mount in mounts if mount.container.startswith(f"{DATA_DIR}/")))


def _inputs(plan: Plan, engine: Engine, paths: Paths, progress: Progress) -> Inputs:
    options = plan.options
    devices = {trial.device: trial.gpus for trial in plan.planned if trial.gpus}
    access = {
        device: choose_access(engine.info, tuple(plan.gpus[i] for i in positions))
        for device, positions in devices.items()
    }
    return Inputs(
        access=access,
        images=_images(plan, engine, paths, progress),
        data={
            data: ensure_data(data, paths.cache, options.data, options.seed, progress)
            for data in dict.fromkeys(data for workload in plan.workloads for data in workload.datasets)
        },
    )


def _images(plan: Plan, engine: Engine, paths: Paths, progress: Progress) -> Mapping[str, ImageInfo]:
    """Return the image (or local environment) of each target, built if needed."""
    custom = plan.options.images
    if not isinstance(engine, DockerEngine):
        limits = {"--memory": plan.options.memory_gib, "--cpu-quota": plan.options.cpu_quota}
        for option in [name for name, value in {"--image": custom, **limits}.items() if value]:
            raise UsageError(
                f"With the local engine, {option} would have no effect: it runs plain processes.",
                hint=f"Use --engine docker with {option}.",
            )
        if isinstance(engine, LocalEngine):
            engine.require_safe({entry.folder for entry in plan.entries}, plan.options.mounts)
        return {
            target: ensure_environment(target, paths.checkout, paths.cache, progress, plan.options.packages)
            for target in plan.targets
        }
    for target in custom.keys() - set(plan.targets):
        progress.line(f"--image {target}={custom[target]} is not used: no trial needs this image.")
    builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress, plan.options.packages)
    return {
        target: builder.custom(target, custom[target]) if target in custom else builder.ensure(target)
        for target in plan.targets
    }


def _sboms(manifest: Manifest, engine: Engine, paths: Paths, progress: Progress) -> dict[str, bytes]:
    """Return target -> bill of materials of the images that tfbench built."""
    if not isinstance(engine, DockerEngine):
        return {}
    builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress, manifest.options.packages)
    return {image.target: builder.sbom(image) for image in manifest.images if image.lock_sha256}


def _manifest(
    plan: Plan, engine: EngineInfo, inputs: Inputs, paths: Paths, run_id: str, files: Beside
) -> Manifest:
    options = plan.options
    current = datetime.datetime.now(datetime.UTC)
    return Manifest(
        run_id=run_id or new_run_id(current),
        created=current.isoformat(timespec="seconds"),
        tfbench_version=__version__,
        commit=git_commit(paths.checkout),
        command="",
        engine=replace(engine, gpu_access=",".join(sorted({each.kind for each in inputs.access.values()}))),
        images=tuple(inputs.images.values()),
        data=tuple(
            replace(inputs.data[data][1], workload=workload.name)
            for workload in plan.workloads
            for data in workload.datasets
        ),
        gpus=plan.gpus,
        system=system_description(),
        host_facts={**host_facts(), **(cloud_facts() if options.cloud_metadata else {})},
        options=recorded(options),
        profile=plan.profile,
        memory_limit_bytes=int(
            options.memory_gib * 2**30 if options.memory_gib else psutil.virtual_memory().total * MEMORY_SHARE
        ),
        prices=read_prices(options.price),
        sources={
            **sources(plan.entries, options.mounts, files),
            **downloads_sources(plan, paths.cache),
        },
    )


def new_run_id(current: datetime.datetime) -> str:
    """Return a unique run id that sorts by time."""
    return f"{current:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def git_commit(checkout: Path) -> str:
    """Return the checkout's commit, with "-dirty" if files were changed; "" outside a repository."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
