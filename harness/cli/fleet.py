"""`tfbench fleet`: the same plan on every node of a Ray cluster, and one page that compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.analysis.scaling import scaled
from harness.cli.app import app, command_line, paths
from harness.cli.comparing import Named, write_comparison
from harness.cli.console import Terminal, err, out
from harness.cli.fleet_view import FleetView, scaling_table
from harness.cli.measuring import raise_for_trials, stoppable
from harness.cli.shared_options import Json, Quiet, Resume, takes_options
from harness.errors import FleetError, Interrupted, UsageError
from harness.fleet.cluster import connected
from harness.fleet.folder import FleetFolder
from harness.fleet.messages import Request
from harness.fleet.multiworker import counts_in, teams_of
from harness.fleet.session import Ready, prepare, resume, run, scale
from harness.model.options import Options
from harness.model.scaling import Scaling
from harness.rounding import counted
from harness.run.store import write_whole
from reports.compare_messages import scaling_caveats

USUAL = Request()
_which = partial(typer.Option, rich_help_panel="Which nodes")


@app.command()
@takes_options(without=("weights",))
def fleet(
    options: Options,
    address: Annotated[
        str, _which(help="The Ray cluster's head, e.g. 10.0.0.1:6379. Default: this machine's cluster.")
    ] = USUAL.address,
    nodes: Annotated[
        str, _which(help="all, one-per-kind, node names, or label selectors such as pool=a100,zone=b.")
    ] = USUAL.nodes,
    workers: Annotated[
        str, _which(help="1,2,4: train over that many nodes together instead of on each alone.")
    ] = USUAL.workers,
    wait_s: Annotated[float, _which("--wait", help="Seconds to wait for a busy node.", min=1)] = USUAL.wait_s,
    resume_fleet: Resume = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the same plan on every node of a Ray cluster and compare the nodes on one page.

    Each node runs it as `tfbench bench` would, alone on its machine; trials are collected as they end. Exit code
    11 means that nodes are missing from the page: all other results are kept, and --resume tries again.
    """  # fmt: skip
    if workers and (options.cpus or options.cpu_quota or options.memory_bytes):
        raise UsageError(
            "--workers cannot be combined with --cpus, --cpu-quota or --memory.",
            hint="Remove them: workers on one machine divide its CPUs and memory.",
        )
    counts_in(workers or "1")
    if resume_fleet and address == USUAL.address:
        address = FleetFolder(resume_fleet).read_plan().request.address
    request = Request(address=address, nodes=nodes, wait_s=wait_s, workers=workers, command=command_line())
    checkout = paths().checkout
    missing: Mapping[str, str] = {}
    ready: Ready | None = None
    try:
        with stoppable(), FleetView(err(), quiet=quiet) as view, connected(address, checkout):
            if resume_fleet:
                ready = resume(resume_fleet, checkout=checkout, say=view.line)
            else:
                ready = prepare(options, request, checkout=checkout, say=view.line)
            view.line(f"Fleet folder: {ready.folder.path}")
            if together := ready.plan.request.workers:
                scale(ready, counts_in(together), view, say=view.line)
            else:
                missing = run(ready, view)
    except Interrupted as error:
        if ready is None:
            raise
        hint = f"Continue with: tfbench fleet --resume {ready.folder.path}"
        raise Interrupted("Stopped. Finished trials are kept.", hint=hint) from error
    finally:
        if ready is not None:
            _conclude(ready, missing, as_json=as_json, quiet=quiet)
    if missing:
        raise FleetError(
            f"Missing: {counted(len(missing), 'measurement')}, first: {next(iter(missing.values()))}",
            hint=f"The page has the others. Fix the problem and run: tfbench fleet --resume {ready.folder.path}",
        )
    raise_for_trials(ready.folder.endings())


def _conclude(ready: Ready, missing: Mapping[str, str], *, as_json: bool, quiet: bool) -> None:
    """Show what there is of each node, and write the page over all of them."""
    folder = ready.folder
    runs = folder.runs()
    if not runs:
        return
    together = _together(folder)
    if not (as_json or quiet):
        if together is None:
            out().print(_table(ready))
        else:
            out().print(scaling_table(together.points))
            for sentence in scaling_caveats(together.placements):
                out().print(Text(sentence))
    named = [Named(path=path, label=path.name) for path in runs]
    page = write_comparison(
        named, folder.path, progress=Terminal(err(), quiet=quiet), scaling=together
    ).resolve()
    if as_json:
        nodes = {key: {"done": folder.done(key), "reason": missing.get(key, "")} for key in ready.plan.chosen}
        out().print_json(json.dumps({"folder": str(folder.path), "page": str(page), "nodes": nodes}))
    else:
        out().print(f"Page: {page}", soft_wrap=True)


def _table(ready: Ready) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("node", "kind", "plan", "trials"):
        table.add_column(name, no_wrap=name != "kind")
    kinds = {node.key: node.kind for node in ready.plan.nodes}
    for key in ready.plan.chosen:
        state = "done" if ready.folder.done(key) else "not finished"
        finished = len(ready.folder.run(key).finished())
        table.add_row(Text(key), Text(kinds.get(key, "")), state, str(finished))
    return table


def _together(folder: FleetFolder) -> Scaling | None:
    """Analyse training over several numbers of workers, and write its figures; None where there was none."""
    made = scaled(teams_of(folder))
    if not made.points:
        return None
    points = [asdict(point) for point in made.points]
    write_whole(folder.path / "scaling.json", json.dumps(points, indent=1) + "\n")
    return made
