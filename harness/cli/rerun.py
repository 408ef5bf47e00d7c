"""`tfbench rerun`: run what a report describes again, and say what differs here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.app import app, command_line, paths
from harness.cli.console import Terminal, err, out
from harness.cli.measuring import measure, stoppable
from harness.cli.run_report import newest
from harness.cli.shared_options import Json, Price, Quiet, Runs, absolute
from harness.defaults import RUNS
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, UsageError
from harness.images.builder import ImageBuilder
from harness.model.comparison import Section
from harness.model.run import Run
from harness.rounding import short_digests
from harness.run.prepare import prepare
from harness.run.recording import open_run
from harness.run.repeat import again, compare_images, demands, options_here, outlook

_NOT_HERE = "not here"

Fields = Mapping[tuple[Section, str], tuple[str, str]]


@app.command()
def rerun(
    run: Annotated[
        Path, typer.Argument(help="A report.html, a run folder, or a folder of runs (the newest is used).")
    ] = RUNS,
    check: Annotated[
        bool, typer.Option("--check", help="Only print what differs here; build and run nothing.")
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", "-e", help="Engine, instead of the run's: docker, podman or local.")
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a run from its report: the same plan, parameters, seed and number of trials.

    It first prints what differs here: machine, GPUs, driver, images, data, workloads and tfbench. Differences are
    no errors; `tfbench compare` shows their effect on speed. Prices are the run's, unless --price replaces them.
    """  # fmt: skip
    progress = Terminal(err(), quiet=quiet)
    files = absolute(workload_file or ())
    with stoppable():
        path = newest(run)
        then = open_run(path)
        devices = tuple(filter(None, device.split(",")))
        options = options_here(then, out=runs, engine=engine, devices=devices, files=files, price=price)
        differences = differing(then, outlook(then, options, paths()))
        _introduce(progress, then, differences)
        asked = demands(then, options)
        for name, value in asked.items():
            progress.line(f"The run asks for {name} {value}")
        if check:
            _show_images(progress, then)
            return
        if asked and not yes:
            _confirm(asked)
        prepared = prepare(
            again(then, options), paths(), progress, command=command_line(), rerun_of=then.manifest.run_id
        )
        later = differing(then, prepared.run)
        new = {key: values for key, values in later.items() if key not in differences}
        if new:
            _show(progress, "Differs too, now that images and data are known", new)
        measure(prepared, progress, as_json=as_json, quiet=quiet)
    if not (as_json or quiet):
        out().print(f"Compare with: tfbench compare {path} {prepared.folder.path}", soft_wrap=True)


def _introduce(progress: Terminal, then: Run, differences: Fields) -> None:
    manifest = then.manifest
    progress.line(
        f"Run {manifest.run_id} of {manifest.created}, tfbench {manifest.tfbench_version}, "
        f"seed {manifest.options.seed}: {len(then.trials)} of {len(then.planned)} planned trials ran."
    )
    _show(progress, "Differs here", differences)
    _show_commit(progress, then, differences)


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


def _show(progress: Terminal, title: str, fields: Fields) -> None:
    if not fields:
        progress.line("No differences here, as far as they are known before the run.")
        return
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("then", "here"):
        table.add_column(heading, overflow="fold")
    shown = ""
    for (section, name), values in fields.items():
        if section != shown:
            table.add_row(Text(section, style="bold"))
            shown = section
        table.add_row(Text(f"  {name}"), *(Text(short_digests(value)) for value in values))
    progress.show(table)


def _show_images(progress: Terminal, then: Run) -> None:
    engine = DockerEngine(os.environ)
    try:
        engine.connect()
        builder = ImageBuilder(paths().checkout, paths().cache, engine.client, progress)
        verdicts = compare_images(then, builder.existing)
    except EngineError:
        verdicts = {}
    finally:
        engine.close()
    for target, verdict in verdicts.items():
        progress.line(f"{target} image: {verdict}.")


def _show_commit(progress: Terminal, then: Run, differences: Fields) -> None:
    """Say how to check out the commit of the run, where that would make a difference."""
    ours = {"images", "workloads"}
    commit = then.manifest.commit.removesuffix("-dirty")
    if commit and any(section in ours or name.startswith("tfbench") for section, name in differences):
        changed = (
            ", with uncommitted changes that were not recorded" if commit != then.manifest.commit else ""
        )
        progress.line(f"It ran at commit {commit}{changed}. For the same images, workloads and harness: `git")
        progress.line(
            f"worktree add ../tfbench-{commit[:7]} {commit}`, and there `make` and `tfbench rerun`."
        )
