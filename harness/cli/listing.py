"""`tfbench list`: which workloads there are."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.catalog import built_in
from harness.cli.app import Json, app, out
from harness.cli.console import duration
from workloads.protocol import Published, Workload


@app.command("list")
def listing(
    names: Annotated[bool, typer.Option("--names", help="Print names only, one a line.")] = False,
    as_json: Json = False,
) -> None:
    """List the workloads: model, data, parameters and published results."""
    workloads = tuple(entry.workload for entry in built_in())
    if names:
        for one in workloads:
            out().print(one.name)
    elif as_json:
        out().print_json(json.dumps([asdict(one) for one in workloads]))
    else:
        out().print(_table(workloads))
        out().print("Those marked * run by default; name others with --workload. Your own: --workload-file.")


def _table(workloads: tuple[Workload, ...]) -> Table:
    table = Table(show_lines=True)
    for name in ("workload", "model", "data", "batch, epochs", "published"):
        table.add_column(name)
    for one in workloads:
        shape = "x".join(str(side) for side in one.data.shape)
        mark = " *" if one.suite == "default" else ""
        table.add_row(
            Text(f"{one.name}{mark}"),
            Text(f"{one.model}\n{one.optimizer}, {one.loss}".strip(", \n")),
            Text(f"{one.data.name}: {one.data.train:,} x {shape}, {one.data.classes} classes"),
            Text(f"{one.batch_size}, {one.epochs}"),
            Text("\n".join(_published(number) for number in one.published) or "-"),
        )
    return table


def _published(number: Published) -> str:
    if number.unit == "s":
        value = duration(number.value)
    else:
        value = f"{number.value:g}x" if number.unit == "ratio" else f"{number.value:,g} {number.unit}"
    return f"{number.system}: {value}"
