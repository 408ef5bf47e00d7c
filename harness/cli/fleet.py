"""`tfbench fleet`: the same plan on every node of a Ray cluster, and one page that compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from harness.analysis.scaling import scaled
from harness.cli.app import app, command_line, paths
from harness.cli.comparing import Named, write_comparison
from harness.cli.console import Terminal, err, out
from harness.cli.fleet_view import FleetView, scaling_table
from harness.cli.measuring import raise_for_trials, stoppable
from harness.cli.shared_options import Json, Quiet, Resume, takes, takes_options
from harness.errors import FleetError, Interrupted, UsageError
from harness.fleet.backend import connected
from harness.fleet.folder import BRIEF, FleetFolder
from harness.fleet.messages import Entry, Request
from harness.fleet.multiworker import counts_in, teams_of
from harness.fleet.session import Ready, prepare, resume, run, scale
from harness.model.options import Options
from harness.model.scaling import Scaling
from harness.rounding import counted
from harness.run.plain import from_plain
from reports.compare_messages import scaling_caveats

_which = partial(typer.Option, rich_help_panel="Which nodes")
_REQUEST: Mapping[str, Any] = {
    "address": Annotated[
        str,
        _which(
            help="The Ray cluster's head, e.g. 10.0.0.1:6379. Default: the cluster this machine belongs to."
        ),
    ],
    "nodes": Annotated[
        str, _which(help="all, one-per-kind, node names, or label selectors such as pool=a100,zone=b.")
    ],
    "retry": Annotated[
        bool,
        _which("--retry/--no-retry", help="Let another node of the same kind finish a lost node's plan."),
    ],
    "workers": Annotated[
        str, _which(help="1,2,4: train over that many nodes together instead of on each alone.")
    ],
    "wait_s": Annotated[float, _which("--wait", help="Seconds to wait for a busy node.", min=1)],
}


@app.command()
@takes("request", Request(), _REQUEST)
@takes_options(without=("weights",))
def fleet(
    options: Options,
    request: Request,
    resume_fleet: Resume = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the same plan on every node of a Ray cluster and compare the nodes on one page.

    Each node runs it as `tfbench bench` would, alone on its machine; trials are collected as they end. Exit code
    11 means that nodes are missing from the page: all other results are kept, and --resume tries again.
    """  # fmt: skip
    counts_in(request.workers or "1")
    if request.workers and (options.cpus or options.cpu_quota or options.memory_bytes):
        raise UsageError(
            "--workers cannot be combined with --cpus, --cpu-quota or --memory.",
            hint="Remove them: workers on one machine divide its CPUs and memory.",
        )
    request = replace(request, command=command_line())
    checkout = paths().checkout
    ready: Ready | None = None
    try:
        with (
            stoppable(),
            FleetView(err(), quiet=quiet) as view,
            connected(_address(request.address, resume_fleet), checkout),
        ):
            if resume_fleet:
                planned = from_plain(FleetFolder(resume_fleet).read_plan().options, Options)
                ready = resume(resume_fleet, planned, checkout=checkout, say=view.line)
            else:
                ready = prepare(options, request, checkout=checkout, say=view.line)
            _announce(view, ready)
            together = ready.plan.request.workers
            if together:
                missing: Sequence[Entry] = ()
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
            _conclude(ready.folder, as_json=as_json, quiet=quiet)
    _raise_for(missing, ready.folder)


def _address(address: str, folder: Path | None) -> str:
    """Return where the cluster is: a fleet that goes on does so where it was, unless told otherwise."""
    if folder is None or address != "auto":
        return address
    return FleetFolder(folder).read_plan().request.address


def _announce(view: FleetView, ready: Ready) -> None:
    for problem in ready.plan.problems:
        view.line(f"{problem.message} {problem.hint}")
    kinds = sorted({node.kind for node in ready.usable.values() if node.kind})
    taking = "node takes" if len(ready.tasks) == 1 else "nodes take"
    view.line(f"{len(ready.tasks)} {taking} part, of {counted(len(kinds), 'kind')}: {'; '.join(kinds)}")
    view.line(f"Fleet folder: {ready.folder.path}")


def _conclude(folder: FleetFolder, *, as_json: bool, quiet: bool) -> None:
    runs = folder.runs()
    if not runs:
        return
    journal = folder.journal()
    if as_json:
        states = {name: {"state": entry.state, "text": entry.text} for name, entry in journal.items()}
        out().print_json(json.dumps({"folder": str(folder.path), "nodes": states}))
    elif not quiet and journal:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("run", "kind", "state", "trials"):
            table.add_column(name, no_wrap=name != "kind")
        for name, entry in sorted(journal.items()):
            done = len(folder.finished(entry.task))
            table.add_row(Text(name), Text(entry.task.kind), Text(entry.state.value), str(done))
        out().print(table)
    together = _together(folder)
    if together is not None and not as_json and not quiet:
        out().print(scaling_table(together.points))
        for sentence in scaling_caveats(together.placements):
            out().print(Text(sentence))
    _compare(runs, folder, together, quiet=quiet)


def _together(folder: FleetFolder) -> Scaling | None:
    """Analyse training over several numbers of workers, and write its figures; None where there was none."""
    made = scaled(teams_of(folder))
    if not made.points:
        return None
    points = [asdict(point) for point in made.points]
    folder.write_text("scaling.json", json.dumps(points, indent=1) + "\n")
    return made


def _compare(runs: Sequence[Path], folder: FleetFolder, together: Scaling | None, *, quiet: bool) -> None:
    """Write the page over all runs."""
    named = [
        Named(path=brief if (brief := path / BRIEF).exists() else path, label=path.name) for path in runs
    ]
    progress = Terminal(err(), quiet=quiet)
    page = write_comparison(named, folder.path, progress=progress, scaling=together)
    if page is not None:
        out().print(f"Page: {page.resolve()}", soft_wrap=True)


def _raise_for(missing: Sequence[Entry], folder: FleetFolder) -> None:
    if missing:
        raise FleetError(
            f"{len(missing)} measurements are missing, first: {missing[0].text}",
            hint=f"The page has the others. Fix the problem and run: tfbench fleet --resume {folder.path}",
        )
    raise_for_trials(folder.endings())
