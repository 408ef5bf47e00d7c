"""`tfbench fleet`: the same plan on every node of a Ray cluster, and one page that compares them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.analysis.scaling import scaled
from harness.cli.comparing import Named, write_comparison
from harness.cli.console import Terminal, err, out
from harness.cli.measuring import command_line, raise_for_trials, stoppable
from harness.cli.shared_options import Resume, takes_options
from harness.errors import FleetError, Interrupted
from harness.fleet.cluster import connected
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import FleetPlan
from harness.fleet.multiworker import counts_in, teams_of
from harness.fleet.session import prepare, run, scale, shipped
from harness.model.options import Options
from harness.model.workers import Point, Scaling
from harness.paths import paths_here
from harness.progress import Progress
from harness.rounding import counted, three_digits
from harness.run.prepare import commit_of, new_run_id
from harness.run.store import write_json
from reports.compare_messages import scaling_caveats

USUAL = FleetPlan(options=Options())
_which = partial(typer.Option, rich_help_panel="Which nodes")


@takes_options(without=("weights",))
def command(
    options: Options,
    address: Annotated[
        str, _which(help="The Ray cluster's head, e.g. 10.0.0.1:6379. Default: this machine's cluster.")
    ] = USUAL.address,
    nodes: Annotated[
        str, _which(help="all, one-per-kind, node names, or label selectors such as pool=a100,zone=b.")
    ] = USUAL.choice,
    workers: Annotated[
        str, _which(help="1,2,4: train over that many nodes together instead of on each alone.")
    ] = USUAL.workers,
    wait_s: Annotated[float, _which("--wait", help="Seconds to wait for a busy node.", min=1)] = USUAL.wait_s,
    resume_fleet: Resume = None,
) -> None:
    """Run the same plan on every node of a Ray cluster and compare the nodes on one page.

    Each node runs it as `tfbench bench` would, alone on its machine; trials are collected as they end. Exit code
    11 means that nodes are missing from the page: all other results are kept, and --resume tries again.
    """  # fmt: skip
    if resume_fleet:
        folder = FleetFolder(resume_fleet)
        plan = folder.read_plan()
        if address != USUAL.address:
            plan = replace(plan, address=address)
    else:
        folder = FleetFolder(options.out / f"fleet-{new_run_id(datetime.datetime.now(datetime.UTC))}")
        plan = FleetPlan(
            options=options,
            files=shipped(options),
            command=command_line(),
            address=address,
            choice=nodes,
            workers=workers,
            wait_s=wait_s,
        )
    progress = Terminal(err())
    try:
        missing = _measure(folder, plan, progress)
    except Interrupted as error:
        if not folder.path.exists():
            raise
        hint = f"Continue with: tfbench fleet --resume {folder.path}"
        raise Interrupted("Stopped. Finished trials are kept.", hint=hint) from error
    finally:
        _conclude(folder, progress)
    if missing:
        raise FleetError(
            f"Missing: {counted(len(missing), 'measurement')}, first: {next(iter(missing.values()))}",
            hint=f"The page has the others. Fix the problem and run: tfbench fleet --resume {folder.path}",
        )
    raise_for_trials(folder.endings())


def _measure(folder: FleetFolder, plan: FleetPlan, progress: Progress) -> Mapping[str, str]:
    """Run the plan, or train together; return the nodes whose measurement is missing, with the reasons."""
    counts = counts_in(plan.workers) if plan.workers else ()
    checkout = paths_here().checkout
    with stoppable(), connected(plan.address, checkout) as cluster:
        ready = prepare(cluster, folder, replace(plan, commit=commit_of(checkout)), progress)
        progress.line(f"Fleet folder: {folder.path}")
        if not counts:
            return run(cluster, ready, progress)
        scale(cluster, ready, counts, progress)
        return {}


def _conclude(folder: FleetFolder, progress: Progress) -> None:
    """Show what there is of each node, and write the page over all of them."""
    runs = folder.runs()
    if not runs:
        return
    together = _together(folder)
    if together is None:
        out().print(_table(folder))
    else:
        print_scaling(together)
    named = [Named(path=path, label=path.name) for path in runs]
    page = write_comparison(named, folder.path, progress=progress, scaling=together)
    out().print(f"Page: {page.resolve()}", soft_wrap=True)


def _table(folder: FleetFolder) -> Table:
    plan = folder.read_plan()
    table = Table("node", "kind", "plan", "trials", box=None, pad_edge=False)
    kinds = {node.key: node.kind for node in plan.nodes}
    for key in plan.chosen:
        state = "done" if folder.done(key) else "not finished"
        table.add_row(Text(key), Text(kinds.get(key, "")), state, str(len(folder.run(key).finished())))
    return table


def _together(folder: FleetFolder) -> Scaling | None:
    """Analyse training over several numbers of workers, and write its figures; None where there was none."""
    made = scaled(teams_of(folder))
    if not made.points:
        return None
    write_json(folder.path / "scaling.json", made.points)
    return made


def print_scaling(made: Scaling) -> None:
    """Print a table for each workload, device and variant of how training speeds up over workers, and caveats."""
    for (workload, device, variant), group in groupby(made.points, key=lambda point: point.key):
        out().print(Text(f"training together: {workload}, {device} {variant}", style="bold"))
        out().print(_speedup(tuple(group)))
    for sentence in scaling_caveats(made.placements):
        out().print(Text(sentence))


def _speedup(points: Sequence[Point]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("workers", "samples/s", "efficiency", "interval", "ms/step", "exchange ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for point in points:
        share = point.efficiency
        table.add_row(
            str(point.workers),
            f"{point.throughput.median:,.0f}",
            "-" if share is None else f"{100 * share.median:.0f} %",
            "-" if share is None or share.n < 2 else f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
            three_digits(point.step_time.median * 1e3),
            "-" if point.exchange_s is None else f"{point.exchange_s * 1e3:.3g}",
        )
    return table
