"""`tfbench doctor`: check what this host can run, and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.console import Terminal, err, out
from harness.model.device import CPU, of_gpus
from harness.model.platform import Level
from harness.paths import paths_here
from harness.system.doctor_checks import DoctorCheck, examine
from harness.system.gpus import discover
from harness.system.health_readings import HealthWatch

_STYLE = {Level.FAIL: "bold red", Level.ATTENTION: "yellow", Level.OK: "green"}


def command() -> None:
    """Check what this host can run, its health and speed. Failures come first; the exit code is then 1."""
    order = list(_STYLE)
    paths = paths_here()
    checks = [_worded(check) for check in examine(paths, os.environ, Terminal(err()))]
    checks = sorted((*checks, *_health(paths.cache)), key=lambda check: order.index(check.level))
    out().print(_table(checks))
    if any(check.level is Level.FAIL for check in checks):
        raise typer.Exit(1)


def _worded(check: DoctorCheck) -> DoctorCheck:
    """Return a check with what its device can do in the words of the report."""
    from harness.analysis.capabilities import capability  # noqa: PLC0415 - kept off the start of commands
    from reports.machine import abilities_line  # noqa: PLC0415

    device = of_gpus(0) if check.gpu else CPU
    kind = check.gpu.name if check.gpu else ""
    able = (capability(device, name, [rate], kind, check.gpu) for name, rate in check.rates.items())
    line = abilities_line([each for each in able if each])
    return replace(check, fact="; ".join(filter(None, (check.fact, line))))


def _health(data: Path) -> Iterator[DoctorCheck]:
    """Yield a check for each health check of the machine that did not pass, or one for all of them."""
    from harness.analysis.health_checks import health_items  # noqa: PLC0415 - see _worded
    from reports.machine import checked_device, health_text  # noqa: PLC0415

    gpus, _ = discover()
    watch = HealthWatch(gpus, "", data)
    items = health_items(watch.end(watch.begin()), len(gpus), ())
    found = [item for item in items if item.level in (Level.FAIL, Level.ATTENTION)]
    for item in found:
        yield DoctorCheck(
            f"Health {checked_device(item.device)}", item.level, f"{item.check.value}: {health_text(item)}"
        )
    if not found:
        readable = sum(item.level is Level.OK for item in items)
        yield DoctorCheck(
            "Health", Level.OK, f"{readable} checks passed, {len(items) - readable} not readable now"
        )


def _table(checks: Sequence[DoctorCheck]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for check in checks:
        text = Text(check.fact)
        if check.remedy:
            text.append(f"\n{check.remedy}", style="dim" if check.level is Level.OK else "")
        table.add_row(Text(check.level.value, style=_STYLE[check.level]), Text(check.name), text)
    return table
