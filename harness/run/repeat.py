"""Repeat a recorded run on this host, with the same plan, parameters, seed and number of trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from harness import __version__
from harness.defaults import RUNS
from harness.digests import file_sha256
from harness.engines.connect import DOCKER, LOCAL
from harness.errors import UsageError
from harness.model.options import Options
from harness.model.platform import EngineInfo, ImageInfo, target_for
from harness.model.run import Run, Status
from harness.paths import Paths
from harness.run.catalogue import built_in, external, sources
from harness.run.prepare import git_commit
from harness.run.resolve import Resolved, resolve
from harness.system.gpus import discover, select_gpus
from harness.system.machine import host_facts, system_description


def rerun_options(
    run: Run,
    *,
    out: Path = RUNS,
    engine: str = "",
    devices: tuple[str, ...] = (),
    files: tuple[Path, ...] = (),
    price: str = "",
) -> Options:
    """Return the options for repeating a recorded run on this host.

    Args:
        run: the recorded run.
        out: parent of the new run folder.
        engine: "" for the engine of the run.
        devices: subset of the run's devices; empty for all.
        files: local paths of the workload files, if they differ.
        price: value of --price; "" for the prices of the run.

    Raises:
        UsageError: the run did not use a device, or a workload file is missing.
    """
    options = run.manifest.options
    used_devices = tuple(dict.fromkeys(planned.device for planned in run.planned))
    if unused := [device for device in devices if device not in used_devices]:
        raise UsageError(
            f"The run did not use {', '.join(unused)}.", hint=f"Choose from: {', '.join(used_devices)}."
        )
    if missing := [str(path) for path in files or options.files if not path.is_file()]:
        raise UsageError(
            f"Workload files of the run do not exist here: {', '.join(missing)}.",
            hint="Give the file's location with --workload-file.",
        )
    return replace(
        options,
        out=out,
        engine=engine or (DOCKER if run.manifest.engine.isolated else LOCAL),
        device=",".join(devices or used_devices),
        files=files or options.files,
        workloads=tuple(dict.fromkeys(planned.workload for planned in run.planned)),
        price=price or options.price,
    )


def resolve_rerun(run: Run, options: Options) -> Resolved:
    """Resolve a recorded run on this host.

    The plan has exactly the trials that were run, because the number needed for a narrow interval differs between
    hosts. For an interrupted run it is the complete plan.

    Args:
        run: the recorded run.
        options: result of `rerun_options`.

    Raises:
        UsageError, GpuError: this host lacks something that the run needs.
    """
    resolved = resolve(options)
    devices = options.device.split(",")
    planned = tuple(trial for trial in run.planned if trial.device in devices)
    profile = run.manifest.profile
    if run.stops:
        ran = {trial.id for trial in run.trials if trial.status is not Status.INTERRUPTED}
        planned = tuple(trial for trial in planned if trial.id in ran)
        most = max((trial.index for trial in planned), default=0) + 1
        profile = replace(profile, trials=most, max_trials=most)
    entries = tuple(e for e in resolved.entries if e.workload.name in {trial.workload for trial in planned})
    return replace(resolved, profile=profile, planned=planned, entries=entries)


def requested_resources(run: Run, options: Options) -> Mapping[str, str]:
    """Return the settings of a recorded run that need the user's consent: option name -> value.

    Args:
        options: result of `rerun_options`; workload files given by the user need no consent.
    """
    recorded_files = options.files if options.files == run.manifest.options.files else ()
    requested = {
        "--engine": "" if run.manifest.engine.isolated or options.engine != LOCAL else LOCAL,
        "--image": ", ".join(f"{target}={reference}" for target, reference in options.images.items()),
        "--base": options.base,
        "--workload-file": ", ".join(map(str, recorded_files)),
        "--weights": options.weights,
        "--gpus": "" if options.gpus == Options().gpus else options.gpus,
        "--cpus": options.cpus,
        "--cpu-quota": options.cpu_quota,
        "--memory": options.memory_bytes and f"{options.memory_bytes / 2**30:.4g} GiB",
    }
    return {name: str(value) for name, value in requested.items() if value}


def expected_run(run: Run, options: Options, paths: Paths) -> Run:
    """Return the run as it would be on this host, without connecting to an engine or building an image.

    Unknown fields, such as data and engine, are empty.
    """
    external_entries = tuple(entry for path in options.files for entry in external(path))
    entries = tuple(
        entry for entry in (*built_in(), *external_entries) if entry.workload.name in options.workloads
    )
    gpus_here, _ = discover()
    gpus = select_gpus(gpus_here, options.gpus) if gpus_here and run.manifest.gpus else ()
    targets = {
        target_for(workload.image, gpu=bool(planned.gpus))
        for planned in run.planned
        for workload in run.workloads
        if workload.name == planned.workload
    }
    locks = {target: paths.checkout / "images" / f"{target}.lock" for target in sorted(targets)}
    engine = EngineInfo(name="", version="", isolated=run.manifest.engine.isolated)
    manifest = replace(
        run.manifest,
        tfbench_version=__version__,
        commit=git_commit(paths.checkout),
        engine=engine,
        images=tuple(
            ImageInfo(target=target, reference="", digest="", base="", lock_sha256=file_sha256(lock))
            for target, lock in locks.items()
            if target not in options.images and lock.is_file()
        ),
        data=(),
        gpus=gpus,
        system=system_description(),
        host_facts=host_facts(),
        sources=sources(entries),
    )
    return replace(
        run, manifest=manifest, workloads=tuple(entry.workload for entry in entries), trials=(), stops=()
    )


def compare_images(recorded: Run, find: Callable[[str], ImageInfo | None]) -> dict[str, str]:
    """Describe for each image of a run whether the local one has the same content.

    Args:
        recorded: the run.
        find: returns the local image of a target, or None.
    """
    verdicts = {}
    for image in recorded.manifest.images:
        if not (image.contents and image.lock_sha256):
            continue
        here = find(image.target)
        if here is None:
            verdicts[image.target] = "not built yet"
        elif here.contents == image.contents:
            verdicts[image.target] = "same content"
        elif here.lock_sha256 != image.lock_sha256:
            verdicts[image.target] = "different content, from a different lock file"
        elif here.base != image.base:
            verdicts[image.target] = f"different content, on base {here.base} instead of {image.base}"
        else:
            verdicts[image.target] = "different content, from the same lock file and base"
    return verdicts
