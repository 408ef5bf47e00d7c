"""`tfbench fleet`: run the same plan on every node of a Ray cluster and compare the nodes."""

from __future__ import annotations

import datetime
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.bench import command_line, confirm, raise_for_trials
from harness.cli.console import Terminal, best_effort, err, show_path
from harness.cli.rendering import NamedRun, comparison_renderers, read_extracts
from harness.cli.shared_options import Resume, Yes, takes_options
from harness.engines import LOCAL
from harness.errors import FleetError, Interrupted
from harness.fleet.cluster import connected
from harness.fleet.fleet_folder import FleetFolder, FleetPlan
from harness.fleet.session import run, user_files
from harness.model.run import Status
from harness.options import Options
from harness.paths import paths_here
from harness.progress import Progress
from harness.run.plan import split_devices
from harness.run.prepare import git_commit, new_run_id
from harness.run.resolve import resolve, revealed
from harness.run.started import is_own, remember
from harness.run.store import write_atomic
from harness.wording import counted

DEFAULTS = FleetPlan(options=Options())
_option = partial(typer.Option, rich_help_panel="Which nodes")


@takes_options()
def command(
    options: Options,
    address: Annotated[
        str,
        _option(help="Head of the Ray cluster, e.g. 10.0.0.1:6379. Default: the cluster of this machine."),
    ] = DEFAULTS.address,
    nodes: Annotated[
        str, _option(help="all, one-per-kind, node names, or label selectors such as pool=a100,zone=b.")
    ] = DEFAULTS.choice,
    wait_s: Annotated[
        float, _option("--wait", help="Seconds to wait for a busy node.", min=1)
    ] = DEFAULTS.wait_s,
    resume_fleet: Resume = None,
    yes: Yes = False,
) -> None:
    """Run the same plan on every node of a Ray cluster and compare the nodes on one page.

    Each node runs the plan like `tfbench bench`; trials are collected as they finish. Exit code
    11 means that nodes are missing: all other results are kept, and --resume tries again.
    """  # fmt: skip
    if resume_fleet:
        folder = FleetFolder(resume_fleet)
        plan = folder.read_plan()
        if not is_own(plan.identity, paths_here()):
            _ask(plan, Terminal(err()), allowed=yes)
        if address != DEFAULTS.address:
            plan = replace(plan, address=address)
        remember(plan.identity, paths_here())
        plan = replace(plan, options=revealed(plan.options, os.environ))
    else:
        # Each node checks what depends on its hardware: its CPUs and number of GPUs.
        split_devices(options.device)
        resolve(replace(options, device="cpu", cpus=""))
        folder = FleetFolder(options.out / f"fleet-{new_run_id(datetime.datetime.now(datetime.UTC))}")
        plan = FleetPlan(
            options=options,
            files=user_files(options),
            command=command_line(),
            address=address,
            choice=nodes,
            wait_s=wait_s,
        )
        remember(plan.identity, paths_here())
    progress = Terminal(err())
    resume_command = f"tfbench fleet --resume {shlex.quote(str(folder.path))}"
    try:
        missing = _measure(folder, plan, progress)
    except KeyboardInterrupt as error:
        if not folder.path.exists():
            raise
        hint = f"Continue with: {resume_command}"
        raise Interrupted("Stopped. Finished trials are kept.", hint=hint) from error
    finally:
        _write_page(folder, progress)
    if missing:
        raise FleetError(
            f"{counted(len(missing), 'node')} missing, first: {next(iter(missing.values()))}",
            hint=f"Fix the problem and run: {resume_command}",
        )
    raise_for_trials(folder.trials())


def _ask(plan: FleetPlan, progress: Progress, *, allowed: bool) -> None:
    """Print what a fleet of others uses, also of this user's environment, and ask the user unless it is allowed.

    Raises:
        UsageError: the user declines, or standard input is not a terminal.
    """
    from harness.run.repeat import requested_options  # noqa: PLC0415 - kept off the start of commands

    scripts = {"the scripts": ", ".join(plan.files)} if plan.files else {}
    local = {"--engine": LOCAL} if plan.options.engine == LOCAL else {}
    requested = {"--address": plan.address, **scripts, **local, **requested_options(plan.options)}
    for name, value in requested.items():
        progress.line(f"The fleet uses {name} {value}")
    if not allowed:
        confirm(requested)


def _measure(folder: FleetFolder, plan: FleetPlan, progress: Progress) -> Mapping[str, str]:
    """Run the plan; return missing nodes with the reasons."""
    checkout = paths_here().checkout
    with connected(plan.address, checkout) as cluster:
        return run(cluster, folder, replace(plan, commit=git_commit(checkout)), progress)


def _write_page(folder: FleetFolder, progress: Progress) -> None:
    """Print what was measured on each node, and write the page."""
    runs = folder.runs()
    if not runs:
        return
    from harness.analysis.versus import versus  # noqa: PLC0415 - kept off the start of commands

    comparison = versus(read_extracts([NamedRun(path=path, label=path.name) for path in runs], progress))
    best_effort().print(_table(folder))
    page = write_atomic(folder.path / "comparison.html", comparison_renderers(comparison)["html"]())
    show_path("Page", page.resolve())


def _table(folder: FleetFolder) -> Table:
    plan = folder.read_plan()
    table = Table("node", "kind", "plan", "trials", box=None, pad_edge=False)
    kinds = {node.key: node.kind for node in plan.nodes}
    names = (name for name, trial in folder.trials().items() if trial.status is Status.OK)
    finished = Counter(name.partition("/")[0] for name in names)
    for key in plan.chosen:
        state = "done" if folder.done(key) else "not finished"
        table.add_row(Text(key), Text(kinds.get(key, "")), state, str(finished[key]))
    return table
