"""`tfbench list`: which workloads there are, what was published, and what each costs to run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from harness.cli.console import out
from harness.cli.shared_options import Json
from harness.run.catalogue import built_in, select
from harness.run.footprint import Footprint, footprints
from reports.numbers import SPACE, duration, published
from workloads.protocol import BASELINE, Data, Published, Workload

# So wide that the longest heading fits; what stands beside it wraps at any width.
_HEADING = 10


def command(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these, with their details.")
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Add model, data, parameters, published results and cost.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List workloads: a line each, or with --long their data, published results, and what each costs to run."""
    workloads = tuple(entry.workload for entry in (select(built_in(), tuple(only)) if only else built_in()))
    measured = footprints()
    if as_json:
        out().print_json(
            json.dumps([_document(workload, measured.get(workload.name, ())) for workload in workloads])
        )
    elif long or only:
        for workload in workloads:
            out().print(Text(workload.name, style="bold"), Text(workload.title), sep="  ", soft_wrap=True)
            out().print(_table(workload, measured.get(workload.name, ())))
    else:
        width = max(len(workload.name) for workload in workloads) + 3
        for workload in workloads:
            name = f"{workload.name} *" if workload.suite == "default" else workload.name
            out().print(Text(f"{name:<{width}}{workload.title}"), soft_wrap=True)
        out().print("* runs by default; name others with --workload. Details: tfbench list NAME, or --long.")


def _document(workload: Workload, measured: tuple[Footprint, ...]) -> Mapping[str, Any]:
    return {
        **asdict(workload),
        "footprint": [{**asdict(footprint), "run_s": footprint.run_s} for footprint in measured],
    }


def _table(workload: Workload, measured: tuple[Footprint, ...]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=_HEADING + 2, no_wrap=True)
    table.add_column(overflow="fold")
    for heading, lines in _rows(workload, measured):
        for position, line in enumerate(lines):
            table.add_row(Text("" if position else f"  {heading}"), Text(line.replace(SPACE, " ")))
    table.add_row("", "")
    return table


def _rows(workload: Workload, measured: tuple[Footprint, ...]) -> Iterator[tuple[str, list[str]]]:
    if workload.model:
        yield "model", [workload.model]
    yield "data", [_data(workload.data)]
    yield workload.task + "s", [_training(workload)]
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


def _training(workload: Workload) -> str:
    epochs = f"{workload.epochs} epoch{'s' if workload.epochs > 1 else ''}"
    if workload.samples_per_epoch:
        epochs += f" of {workload.samples_per_epoch:,} samples"
    words = [f"batch {workload.batch_size}", epochs if workload.task == "train" else ""]
    return ", ".join(filter(None, (*words, workload.optimizer, workload.loss)))


def _published(number: Published) -> str:
    what = {"ratio": " GPU/CPU", "requests ratio": " GPU/CPU requests", "gain": " by tuning"}.get(
        number.unit, "" if number.unit in ("s", "samples/s") else f" {number.unit}"
    )
    notes = [number.note, f"as {number.variant}" if number.variant != BASELINE else ""]
    tail = "; ".join(filter(None, (number.source, *notes)))
    return f"{published(number)}{what}: {number.system} ({tail})"


def _footprint(footprint: Footprint) -> str:
    sizes = [f"{footprint.memory_bytes / 1e9:.1f} GB of memory" if footprint.memory_bytes else ""]
    sizes.append(f"{footprint.data_bytes / 1e6:,.0f} MB of data" if footprint.data_bytes else "")
    each = f" ({footprint.trials} trials)" if footprint.trials > 1 else ""
    return (
        ", ".join(filter(None, (f"{footprint.profile} {duration(footprint.run_s)}{each}", *sizes)))
        + f", on {footprint.machine}"
    )
