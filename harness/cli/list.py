"""`tfbench list`: list workloads and their published results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.console import out
from harness.model.workload import Data, Published, Workload
from harness.run.catalogue import built_in, select
from reports.numbers import SPACE, published
from workloads.variants import BASELINE, OPTIMIZATION

_SUITES = {"default": " *", "gpu": " *g", "cpu": " *c", "extra": ""}


def command(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Show only these, with details.")
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Add data, parameters and published results.")
    ] = False,
) -> None:
    """List workloads, one per line; --long adds data and published results."""
    workloads = tuple(entry.workload for entry in (select(only) if only else built_in()))
    if long or only:
        for workload in workloads:
            out().print(Text(workload.name, style="bold"), Text(workload.title), sep="  ", soft_wrap=True)
            table = Table.grid(padding=(0, 2))
            for heading, lines in _details(workload):
                table.add_row(heading, Text("\n".join(lines).replace(SPACE, " ")))
            out().print(table)
    else:
        width = max(len(workload.name) for workload in workloads) + 4
        for workload in workloads:
            name = workload.name + _SUITES[workload.suite]
            out().print(Text(f"{name:<{width}}{workload.title}"), soft_wrap=True)
        out().print(
            "* runs by default (*g on GPUs, *c without GPUs); name others: tfbench bench NAME. "
            "Details: tfbench list NAME, or --long."
        )


def _details(workload: Workload) -> Iterator[tuple[str, list[str]]]:
    yield "data", [_data(data) for data in workload.datasets] or ["made by the script"]
    if workload.params:
        yield "parameters", [", ".join(f"{name}={value!r}" for name, value in workload.params.items())]
    if workload.ladder:
        yield "variants", [", ".join(map(OPTIMIZATION.of, workload.ladder))]
    published = [_published(number) for number in workload.published]
    yield "published", published or [f"- ({workload.source})" if workload.source else "-"]


def _data(data: Data) -> str:
    shape = "x".join(str(side) for side in data.shape)
    description = f"JPEG files of {shape} on average" if data.kind == "jpeg" else shape
    return f"{data.name}: {data.train:,} training + {data.test:,} test, {description}, {data.classes} classes"


def _published(number: Published) -> str:
    description = "" if number.unit in ("s", "samples/s") else f" {number.unit}"
    variant = "" if number.variant == BASELINE else f"as {number.variant}"
    notes = "; ".join(filter(None, (number.source, number.note, variant)))
    return f"{published(number)}{description}: {number.system} ({notes})"
