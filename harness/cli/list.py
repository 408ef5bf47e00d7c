"""`tfbench list`: which workloads there are, what was published, and what each costs to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.console import out
from harness.run.catalogue import built_in, select
from harness.run.footprint import Footprint, footprints
from reports.numbers import SPACE, duration, published
from workloads.protocol import BASELINE, Data, Published, Workload


def command(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these, with their details.")
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Add model, data, parameters, published results and cost.")
    ] = False,
) -> None:
    """List workloads: a line each, or with --long their data, published results, and what each costs to run."""
    workloads = tuple(entry.workload for entry in (select(built_in(), tuple(only)) if only else built_in()))
    if long or only:
        measured = footprints()
        for workload in workloads:
            out().print(Text(workload.name, style="bold"), Text(workload.title), sep="  ", soft_wrap=True)
            table = Table.grid(padding=(0, 2))
            for heading, lines in _details(workload, measured.get(workload.name, ())):
                table.add_row(heading, Text("\n".join(lines).replace(SPACE, " ")))
            out().print(table)
    else:
        width = max(len(workload.name) for workload in workloads) + 3
        for workload in workloads:
            name = f"{workload.name} *" if workload.suite == "default" else workload.name
            out().print(Text(f"{name:<{width}}{workload.title}"), soft_wrap=True)
        out().print("* runs by default; name others with --workload. Details: tfbench list NAME, or --long.")


def _details(workload: Workload, measured: Sequence[Footprint]) -> Iterator[tuple[str, list[str]]]:
    if workload.model:
        yield "model", [workload.model]
    yield "data", [_data(workload.data)]
    epochs = f"epochs {workload.epochs}" if workload.task == "train" else ""
    words = (f"batch {workload.batch_size}", epochs, workload.optimizer, workload.loss)
    yield workload.task + "s", [", ".join(filter(None, words))]
    if workload.params:
        yield "parameters", [", ".join(f"{name}={value}" for name, value in workload.params.items())]
    if workload.optimizations:
        yield "optimizations", [", ".join(workload.optimizations)]
    yield "published", [_published(number) for number in workload.published] or [f"- ({workload.source})"]
    yield "footprint", [_footprint(footprint) for footprint in measured] or ["not measured yet"]


def _data(data: Data) -> str:
    shape = "x".join(str(side) for side in data.shape)
    if not data.train:
        return f"{data.name}: made by the workload, {shape}"
    what = f"JPEG files of {shape} on average" if data.kind == "jpeg" else shape
    return f"{data.name}: {data.train:,} + {data.test:,} held out, {what}, {data.classes} classes"


def _published(number: Published) -> str:
    what = "" if number.unit in ("s", "samples/s") else f" {number.unit}"
    variant = "" if number.variant == BASELINE else f"as {number.variant}"
    notes = "; ".join(filter(None, (number.source, number.note, variant)))
    return f"{published(number)}{what}: {number.system} ({notes})"


def _footprint(footprint: Footprint) -> str:
    parts = [f"{footprint.profile} {duration(footprint.run_s)} (trials: {footprint.trials})"]
    if footprint.memory_bytes:
        parts.append(f"{footprint.memory_bytes / 1e9:.1f} GB of memory")
    if footprint.data_bytes:
        parts.append(f"{footprint.data_bytes / 1e6:,.0f} MB of data")
    return f"{', '.join(parts)}, on {footprint.machine}"
