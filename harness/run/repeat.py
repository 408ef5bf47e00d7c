"""Repeat a recorded run on this host, with the same plan, parameters, seed and number of trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness import __version__
from harness.engines import LOCAL, used_engine
from harness.errors import StoreError, UsageError
from harness.images.recipes import Recipes
from harness.model.platform import EngineInfo, ImageInfo
from harness.model.run import Run, Status
from harness.model.workload import SCRIPTS
from harness.options import DEFAULTS, OPTIONS, Options, given
from harness.paths import Paths
from harness.progress import Silent
from harness.run.catalogue import select, sources
from harness.run.plan import split_devices
from harness.run.prepare import git_commit
from harness.run.resolve import Plan, resolve
from harness.system.gpus import discover, select_gpus
from harness.system.machine import host_facts, system_description
from harness.untrusted import printable
from workloads.protocol import MACHINE


def rerun_options(run: Run, here: Options) -> Options:
    """Return the options for repeating a recorded run on this host, in the folder `here.out`.

    Args:
        here: options of `rerun`, which replace those of the run unless they are the defaults.

    Raises:
        UsageError: the run did not use a device, a script is missing, or one that is given is not the run's.
    """
    options = run.manifest.options
    own = {name: value for name, value in given(here).items() if OPTIONS[name].on_rerun == "replace"}
    devices = split_devices(own.pop("device", ""))
    used_devices = tuple(dict.fromkeys(planned.device for planned in run.planned))
    if unused := [device for device in devices if device not in used_devices]:
        raise UsageError(
            f"The run did not use {', '.join(unused)}.", hint=f"Choose from: {', '.join(used_devices)}."
        )
    # As those of a run are read.
    scripts = {printable(Path(name).name): str(Path(name).absolute()) for name in here.workloads}
    names = options.workloads or [workload.name for workload in run.workloads]
    if others := scripts.keys() - {Path(name).name for name in names if name.endswith(SCRIPTS)}:
        raise UsageError(
            f"{min(others)} is no script of the run.",
            hint=f"It has {', '.join(names)}. Name those that lie elsewhere here, by the same name.",
        )
    used = [_located(name, scripts) for name in names]
    as_recorded = replace(
        options,
        out=DEFAULTS.out,
        engine=used_engine(run.manifest.engine),
        device=",".join(devices or used_devices),
        workloads=tuple(dict.fromkeys(used)),
    )
    return replace(as_recorded, **own)


def _located(name: str, here: Mapping[str, str]) -> str:
    """Return the path of a script on this host, or the name of a built-in workload."""
    if not name.endswith(SCRIPTS):
        return name
    path = here.get(Path(name).name, name)
    if not Path(path).is_file():
        raise UsageError(
            f"The script {path} does not exist here.",
            hint=f"Name its place, under the same name: tfbench rerun REPORT {Path(name).name}",
        )
    return path


def resolve_rerun(run: Run, options: Options) -> Plan:
    """Resolve a recorded run on this host.

    The plan has exactly the trials that were run, because the number needed for a narrow interval differs between
    hosts. For an interrupted run it is the complete plan.

    Raises:
        UsageError, GpuError: this host lacks something that the run needs.
        StoreError: its plan is not of its options.
    """
    plan = resolve(options)
    devices = options.device.split(",")
    planned = tuple(trial for trial in run.planned if trial.device in devices)
    profile = run.manifest.profile
    if run.ended:
        ran = {trial.id for trial in run.trials if trial.status is not Status.INTERRUPTED}
        planned = tuple(trial for trial in planned if trial.id in ran)
        most = max((trial.index for trial in planned), default=0) + 1
        profile = replace(profile, trials=most, max_trials=most)
    used = {trial.workload for trial in planned}
    if others := used - {MACHINE, *(entry.workload.name for entry in plan.entries)}:
        raise StoreError(
            f"The run is damaged: its plan has {printable(min(others), 80)}, which its options do not select.",
            hint="Restore it from a copy.",
        )
    entries = tuple(entry for entry in plan.entries if entry.workload.name in used)
    return replace(plan, profile=profile, planned=planned, entries=entries)


def requested_resources(run: Run, options: Options) -> Mapping[str, str]:
    """Return the settings of a recorded run that need the user's consent: option name -> value.

    Args:
        options: result of `rerun_options`; scripts given by the user need no consent.
    """
    recorded = run.manifest.options.workloads
    scripts = [name for name in options.workloads if name.endswith(SCRIPTS) and name in recorded]
    requested = {
        "--engine": "" if run.manifest.engine.isolated or options.engine != LOCAL else LOCAL,
        "the scripts": ", ".join(scripts),
    }
    return {**{name: text for name, text in requested.items() if text}, **requested_options(options)}


def requested_options(options: Options) -> Mapping[str, str]:
    """Return the options that need the user's consent in a run of others: name -> value."""
    asked = {
        OPTIONS[name]: value for name, value in given(options).items() if OPTIONS[name].on_rerun == "ask"
    }
    # In one line each, so that a value cannot pass for other lines of what is asked.
    return {option.flag: option.text(value).replace("\n", "\\n") for option, value in asked.items()}


def expected_run(run: Run, options: Options, paths: Paths, images: Mapping[str, ImageInfo] | None) -> Run:
    """Return the run as it would be on this host; unknown fields, such as data and engine, are empty.

    Args:
        images: target -> image that the engine has; of others only the lock is known. None if nothing is known.
    """
    entries = select(options.workloads, on_gpus=bool(run.manifest.gpus))
    gpus_here, _ = discover()
    gpus = select_gpus(gpus_here, options.gpus) if gpus_here and run.manifest.gpus else ()
    recipes = Recipes(paths.checkout / "images", packages=options.packages)
    if options.packages and images is not None:
        for image in run.manifest.images:
            recipes.resolve(image.target, paths.cache, Silent())

    def here(image: ImageInfo) -> ImageInfo:
        lock = "" if images is None else recipes.lock_sha256(image.target)
        return replace(image, base="", lock_sha256=lock, digest="", contents="")

    known = images or {}
    manifest = replace(
        run.manifest,
        tfbench_version=__version__,
        commit=git_commit(paths.checkout),
        engine=EngineInfo(name="", version="", isolated=options.engine != LOCAL),
        images=tuple(
            known.get(image.target) or here(image)
            for image in run.manifest.images
            if image.target not in options.images or image.target in known
        ),
        data=(),
        gpus=gpus,
        system=system_description(),
        host_facts=host_facts(),
        sources=sources(entries, (path for path in options.mounts if path.exists())),
    )
    return replace(
        run, manifest=manifest, workloads=tuple(entry.workload for entry in entries), trials=(), ended=False
    )
