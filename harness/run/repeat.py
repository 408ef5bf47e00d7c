"""Run what a report describes again: the same plan, parameters, seed and number of trials, on this host."""

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
from harness.run.prepare import commit_of
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
    """Return the options with which a recorded run runs again on this host.

    Args:
        run: what to run again.
        out: the folder for the new run folder.
        engine: another engine than the run's, "" for the same.
        devices: those of the run's devices to run on again; all of them when empty.
        files: where the user's own workload files lie here, if not where they lay.
        price: other prices than the run's, as harness.run.prices reads them; "" for the same.

    Raises:
        UsageError: the run did not use such a device, or a workload file is not here.
    """
    options = run.manifest.options
    had = tuple(dict.fromkeys(planned.device for planned in run.planned))
    if strange := [device for device in devices if device not in had]:
        raise UsageError(f"The run did not use {', '.join(strange)}.", hint=f"Choose from: {', '.join(had)}.")
    if missing := [str(path) for path in files or options.files if not path.is_file()]:
        raise UsageError(
            f"The run used workload files that are not here: {', '.join(missing)}.",
            hint="Name the file with --workload-file.",
        )
    return replace(
        options,
        out=out,
        engine=engine or (DOCKER if run.manifest.engine.isolated else LOCAL),
        device=",".join(devices or had),
        files=files or options.files,
        workloads=tuple(dict.fromkeys(planned.workload for planned in run.planned)),
        price=price or options.price,
    )


def resolve_rerun(run: Run, options: Options) -> Resolved:
    """Resolve a recorded run on this host.

    The trials are those that were run: how many it takes to narrow an interval differs from host to host,
    and here the same number is wanted. Of a run that was cut off it is the whole plan.

    Args:
        run: what to run again.
        options: as `options_here` gives them.

    Raises:
        UsageError, GpuError: what it needs is not here.
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
    """Return what a run asks of this machine beyond a run without options, by the option's name.

    Args:
        options: as `options_here` gives them; workload files that are not the run's are not asked for.
    """
    foreign = options.files if options.files == run.manifest.options.files else ()
    asked = {
        "--image": ", ".join(f"{target}={reference}" for target, reference in options.images.items()),
        "--base": options.base,
        "--workload-file": ", ".join(map(str, foreign)),
        "--weights": options.weights,
        "--gpus": "" if options.gpus == Options().gpus else options.gpus,
        "--cpus": options.cpus,
        "--cpu-quota": options.cpu_quota,
        "--memory": options.memory_bytes and f"{options.memory_bytes / 2**30:.4g} GiB",
    }
    return {name: str(value) for name, value in asked.items() if value}


def expected_run(run: Run, options: Options, paths: Paths) -> Run:
    """Return the run as it would be here, as far as that is certain before an engine is asked or an image built.

    What is not certain yet, such as data and the engine, is empty.
    """
    own = tuple(entry for path in options.files for entry in external(path))
    entries = tuple(entry for entry in (*built_in(), *own) if entry.workload.name in options.workloads)
    result, _ = discover()
    gpus = select_gpus(result, options.gpus) if result and run.manifest.gpus else ()
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
        commit=commit_of(paths.checkout),
        engine=engine,
        images=tuple(
            ImageInfo(target=target, reference="", digest="", base="", lock_sha256=file_sha256(lock))
            for target, lock in locks.items()
            if target not in options.images and lock.is_file()
        ),
        data=(),
        gpus=gpus,
        system=system_description(gpus, engine, {}),
        host_facts=host_facts(),
        sources=sources(entries),
    )
    return replace(
        run, manifest=manifest, workloads=tuple(entry.workload for entry in entries), trials=(), stops=()
    )


def compare_images(then: Run, find: Callable[[str], ImageInfo | None]) -> dict[str, str]:
    """Say of each image that a run was made in whether the one here has the same bits.

    Args:
        then: the run.
        find: returns this host's image of a target, None where it is not built.
    """
    verdicts = {}
    for image in then.manifest.images:
        if not (image.contents and image.lock_sha256):
            continue
        here = find(image.target)
        if here is None:
            verdicts[image.target] = "not built here yet"
        elif here.contents == image.contents:
            verdicts[image.target] = "same bits"
        elif here.lock_sha256 != image.lock_sha256:
            verdicts[image.target] = "other bits, from another lock"
        elif here.base != image.base:
            verdicts[image.target] = f"other bits, on {here.base} instead of {image.base}"
        else:
            verdicts[image.target] = "other bits, from the same lock and base"
    return verdicts
