"""`tfbench doctor`: check what this host can run, and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.console import Terminal, err, out
from harness.paths import paths_here
from harness.system.doctor_checks import Check, State, examine

_STYLE = {State.OK: "green", State.NOTE: "yellow", State.FAIL: "bold red"}


def command() -> None:
    """Check what this host can run; test GPUs in a container. Failures come first; the exit code is then 1."""
    order = (State.FAIL, State.NOTE, State.OK)
    checks = sorted(
        examine(paths_here(), os.environ, Terminal(err())), key=lambda check: order.index(check.state)
    )
    out().print(_table(checks))
    if any(check.state is State.FAIL for check in checks):
        raise typer.Exit(1)


def _table(checks: Sequence[Check]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for check in checks:
        text = Text(check.fact)
        if check.remedy:
            text.append(f"\n{check.remedy}", style="dim" if check.state is State.OK else "")
        table.add_row(Text(check.state.value, style=_STYLE[check.state]), Text(check.name), text)
    return table
