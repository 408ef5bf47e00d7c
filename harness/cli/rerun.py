"""`tfbench rerun`: run what a report describes again, and say what differs here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import Terminal, err, out
from harness.cli.measuring import command_line, measure, stoppable
from harness.cli.run_report import newest
from harness.cli.shared_options import Price, Runs, absolute
from harness.defaults import RUNS
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, UsageError
from harness.images.builder import ImageBuilder
from harness.model.comparison import Section
from harness.model.run import Run
from harness.paths import Paths, paths_here
from harness.rounding import short_digests
from harness.run.prepare import prepare
from harness.run.recording import open_run
from harness.run.repeat import again, compare_images, demands, options_here, outlook

_NOT_HERE = "not here"

Fields = Mapping[tuple[Section, str], tuple[str, str]]


def command(
    run: Annotated[
        Path, typer.Argument(help="A report.html, a run folder, or a folder of runs (the newest is used).")
    ] = RUNS,
    check: Annotated[
        bool, typer.Option("--check", help="Only print what differs here; build and run nothing.")
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", "-e", help="Engine, instead of the run's: docker or local.")
    ] = "",
    device: Annotated[
        str, typer.Option("--device", "-d", help="Only these of the run's devices, comma-separated.")
    ] = "",
    workload_file: Annotated[
        list[Path] | None,
        typer.Option(help="Location here of the run's own workload file."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow the images, files, GPUs and limits that the run names.")
    ] = False,
    runs: Runs = RUNS,
    price: Price = "",
) -> None:
    """Repeat a run from its report: the same plan, parameters, seed and number of trials.

    Before the first trial it prints what differs here: machine, GPUs, driver, images, data, workloads and tfbench.
    Differences are no errors; `tfbench compare` shows their effect on speed. Prices are the run's, unless --price
    replaces them.
    """  # fmt: skip
    progress = Terminal(err())
    files = absolute(workload_file or ())
    paths = paths_here()
    with stoppable():
        path = newest(run)
        then = open_run(path)
        progress.line(_described(then))
        devices = tuple(filter(None, device.split(",")))
        options = options_here(then, out=runs, engine=engine, devices=devices, files=files, price=price)
        asked = demands(then, options)
        for name, value in asked.items():
            progress.line(f"The run asks for {name} {value}")
        if check:
            _show(progress, then, outlook(then, options, paths))
            for target, verdict in _compared_images(then, paths, progress).items():
                progress.line(f"{target} image: {verdict}.")
            return
        if asked and not yes:
            _confirm(asked)
        prepared = prepare(
            again(then, options), paths, progress, command=command_line(), rerun_of=then.manifest.run_id
        )
        _show(progress, then, prepared.run)
        measure(prepared, progress)
    out().print(f"Compare with: tfbench compare {path} {prepared.folder.path}", soft_wrap=True)


def _described(run: Run) -> str:
    made = run.manifest
    return (
        f"Run {made.run_id} of {made.created}, tfbench {made.tfbench_version}, commit {made.commit or 'unknown'}: "
        f"{len(run.trials)} of {len(run.planned)} planned trials ran."
    )


def _confirm(asked: Mapping[str, str]) -> None:
    """Ask whether a run may have what it names: a report may come from anywhere.

    Raises:
        UsageError: it may not, or there is nobody to ask.
    """
    if not (sys.stdin.isatty() and typer.confirm("Allow this?", err=True)):
        listed = ", ".join(f"{name} {value}" for name, value in asked.items())
        raise UsageError(f"The run asks for {listed}.", hint="Allow it with --yes.")


def differing(then: Run, here: Run) -> Fields:
    """Return (section, field) -> its values then and here, of all that is known of both and not the same."""
    from harness.analysis.facts import facts  # noqa: PLC0415 - kept off the start of the command line

    before, now = facts(then), facts(here)
    values = {
        (section, name): (value, now.get(section, {}).get(name, _NOT_HERE if _names_gpu(name) else value))
        for section, fields in before.items()
        for name, value in fields.items()
    }
    return {key: pair for key, pair in values.items() if pair[0] != pair[1]}


def _names_gpu(field: str) -> bool:
    """Return whether a field is the name of a GPU: where there is none, its other fields say no more."""
    return field.startswith("GPU ") and field.endswith(" name")


def _show(progress: Terminal, then: Run, here: Run) -> None:
    differences = differing(then, here)
    for (section, name), (before, now) in differences.items():
        progress.line(f"Differs here: {section}, {name}: {short_digests(before)} -> {short_digests(now)}")
    if not differences:
        progress.line("No differences here, as far as they are known before the run.")


def _compared_images(then: Run, paths: Paths, progress: Terminal) -> Mapping[str, str]:
    engine = DockerEngine()
    try:
        engine.connect()
        builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress)
        return compare_images(then, builder.existing)
    except EngineError:
        return {}
    finally:
        engine.close()
