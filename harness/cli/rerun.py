"""`tfbench rerun`: repeat a run from its report, and print what differs here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.bench import command_line, confirm, measure
from harness.cli.console import Terminal, best_effort, err
from harness.cli.metrics_file import MetricsFile
from harness.cli.shared_options import takes_options
from harness.defaults import RUNS
from harness.engines import LOCAL
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, GpuError, ImageError
from harness.images.builder import ImageBuilder
from harness.model.comparison import Section
from harness.model.platform import ImageInfo
from harness.model.run import Run, Status
from harness.options import OPTIONS, Options
from harness.paths import Paths, paths_here
from harness.run.prepare import prepare
from harness.run.recording import open_run
from harness.run.repeat import expected_run, requested_resources, rerun_options, resolve_rerun
from harness.run.started import identity, is_own
from harness.run.store import newest_run
from harness.wording import short_digests

Fields = Mapping[tuple[Section, str], tuple[str, str]]


@takes_options(only=[name for name, option in OPTIONS.items() if option.on_rerun == "replace"])
def command(
    options: Options,
    run: Annotated[
        Path, typer.Argument(help="A report.html, a run folder, or a folder of runs (the newest is used).")
    ] = RUNS,
    scripts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCRIPT]...", help="Scripts of the run that lie elsewhere on this machine."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only print what differs here; build and run nothing.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Allow the run's engine, images, files, variables, GPUs and limits."
        ),
    ] = False,
    metrics_file: MetricsFile = None,
) -> None:
    """Repeat a run from its report, with the same plan, parameters, seed and number of trials.

    First prints what differs here: machine, GPUs, driver, images, data, workloads and tfbench.
    Differences are not errors; `tfbench compare` shows their effect on speed. Engine, devices, workload files and
    prices are those of the run unless given.
    """  # fmt: skip
    progress = Terminal(err())
    paths = paths_here()
    path = newest_run(run)
    recorded = open_run(path)
    manifest = recorded.manifest
    named = f"Run {manifest.run_id} of {manifest.created}, tfbench {manifest.tfbench_version}, commit "
    complete = sum(trial.status is Status.OK for trial in recorded.trials)
    ran = f"{complete} of {len(recorded.planned)} planned trials are complete."
    _print_line(progress, f"{named}{manifest.commit or 'unknown'}: {ran}")
    options = rerun_options(recorded, replace(options, workloads=tuple(scripts or ())))
    requested = requested_resources(recorded, options)
    for name, value in requested.items():
        _print_line(progress, f"The run uses {name} {value}")
    if check:
        allowed = yes or not options.packages or is_own(identity(manifest), paths)
        _print_differences(progress, recorded, _expected(recorded, options, paths, progress, allowed=allowed))
        with suppress(GpuError):  # a difference, which was printed
            resolve_rerun(recorded, options)
        return
    if requested and not yes:
        confirm(requested)
    prepared = prepare(
        resolve_rerun(recorded, options),
        paths,
        progress,
        command=command_line(),
        rerun_of=manifest.run_id,
    )
    _print_differences(progress, recorded, prepared.run)
    measure(prepared, progress, metrics_file=metrics_file)
    compared = shlex.join(("tfbench", "compare", str(path), str(prepared.folder.path)))
    best_effort().print(f"Compare with: {compared}", soft_wrap=True)


def differences_between(recorded: Run, current: Run) -> Fields:
    """Return (section, field) -> (recorded, current) for all fields that are known and differ."""
    from harness.analysis.extract import facts  # noqa: PLC0415 - kept off the start of the command line

    before, after = facts(recorded), facts(current)
    return {
        (section, name): (value, here)
        for section, fields in before.items()
        for name, value in fields.items()
        # What is not known here counts as equal, except for a GPU, which is missing.
        if (here := after[section].get(name, "none" if re.fullmatch("GPU .* name", name) else value)) != value
    }


def _print_line(progress: Terminal, text: str) -> None:
    """Print text in one line, so that what a report says cannot pass for other lines."""
    progress.line(" ".join(text.splitlines()))


def _print_differences(progress: Terminal, recorded: Run, current: Run) -> None:
    differences = differences_between(recorded, current)
    for (section, name), (before, after) in differences.items():
        what = f"{short_digests(before)} -> {short_digests(after)}"
        _print_line(progress, f"Differs here: {section}, {name}: {what}")
    if not differences:
        progress.line("No differences known before the run.")


def _expected(recorded: Run, options: Options, paths: Paths, progress: Terminal, *, allowed: bool) -> Run:
    """Return the run as it would be here; libraries that somebody else has named are not asked for before consent."""
    told = "libraries of others are looked up with --yes"
    if allowed:
        try:
            images = {} if options.engine == LOCAL else _existing_images(recorded, options, paths, progress)
            return expected_run(recorded, options, paths, images)
        except ImageError as error:
            told = error.message
    _print_line(progress, f"Images are not compared: {told}")
    return expected_run(recorded, options, paths, None)


def _existing_images(
    recorded: Run, options: Options, paths: Paths, progress: Terminal
) -> Mapping[str, ImageInfo]:
    """Return this host's images by target: up-to-date ones, and those of the user that it has."""
    try:
        with closing(DockerEngine.connect()) as engine:
            builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress, options.packages)
            found = {
                image.target: builder.existing_custom(image.target, options.images[image.target])
                if image.target in options.images
                else builder.existing(image.target)
                for image in recorded.manifest.images
                if image.contents
            }
    except EngineError:
        return {}
    for target in [target for target, image in found.items() if not image and target in options.images]:
        progress.line(
            f"{options.images[target]}, the {target} image, is not on this host, which would pull it."
        )
    return {target: image for target, image in found.items() if image}
