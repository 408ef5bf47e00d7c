"""`tfbench bench`: run the workloads and write the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.bench import Options, resolve
from harness.cli.app import Json, Price, Quiet, app, err, places
from harness.cli.console import Terminal
from harness.cli.measuring import measure, stoppable
from harness.errors import UsageError
from harness.session import prepare, resume

_RUN = "What to run"
_WHERE = "Where to run it"
_HOW = "How to measure"


@app.command()
def bench(
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            "-w",
            help="A workload by name, or `all`; again for more. Default: the default suite.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    workload_file: Annotated[
        list[Path] | None,
        typer.Option(help="A workload file of your own; see examples/my_workload.py.", rich_help_panel=_RUN),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", "-p", help="smoke, quick or full.", rich_help_panel=_RUN)
    ] = "quick",
    legs: Annotated[
        str,
        typer.Option(
            help="Comma-separated: as-written, input-only, model-only, tuned. Default: all.",
            rich_help_panel=_RUN,
        ),
    ] = "",
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis/--no-analysis",
            help="Measure what holds each workload back, or its speed alone.",
            rich_help_panel=_RUN,
        ),
    ] = True,
    param: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, e.g. batch_size=64; again for more.", rich_help_panel=_RUN),
    ] = None,
    data: Annotated[
        str, typer.Option(help="auto, real (fail without it) or procedural.", rich_help_panel=_RUN)
    ] = "auto",
    device: Annotated[
        str,
        typer.Option(
            "--device",
            "-d",
            help="auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated.",
            rich_help_panel=_WHERE,
        ),
    ] = "auto",
    gpus: Annotated[
        str,
        typer.Option(
            help="Which cards: indices, UUIDs or MIG UUIDs, comma-separated, or all.", rich_help_panel=_WHERE
        ),
    ] = "0",
    engine: Annotated[
        str,
        typer.Option(
            "--engine", "-e", help="auto, docker or local (nothing isolated).", rich_help_panel=_WHERE
        ),
    ] = "auto",
    image: Annotated[
        list[str] | None,
        typer.Option(
            help="cpu=REF or cuda=REF: an image of your own that has Python and TensorFlow.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    base: Annotated[str | None, typer.Option(help="Base image to build on.", rich_help_panel=_WHERE)] = None,
    cpus: Annotated[
        str, typer.Option(help="Pin containers to these processors, e.g. 0-3,8.", rich_help_panel=_WHERE)
    ] = "",
    cpu_quota: Annotated[
        float | None,
        typer.Option(help="Processors' worth of time for each container.", rich_help_panel=_WHERE, min=0.01),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="Memory limit in GiB. Default: 90 % of the host's.", rich_help_panel=_WHERE, min=0.1
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Exactly so many trials instead of the profile's.", rich_help_panel=_HOW, min=1),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(help="Telemetry samples a second; 0 for none.", rich_help_panel=_HOW, min=0, max=100),
    ] = 10,
    stall: Annotated[
        float | None,
        typer.Option(help="End a trial that says nothing for so many seconds.", rich_help_panel=_HOW, min=1),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For weights, shuffling and procedural data.", rich_help_panel=_HOW)
    ] = 1,
    price: Price = "",
    runs: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for run folders.", rich_help_panel=_HOW)
    ] = Path("runs"),
    resume_run: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Go on with an interrupted run folder; other options are taken from it.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the workloads in containers, sample the host meanwhile, and write one report.

    Exit codes: 0 all went well, 2 usage, 3 engine, 4 image, 5 a trial failed, 6 disk, 7 another run,
    8 GPU, 9 data, 130 interrupted. Finished trials and a report of them are kept whatever happens.
    """  # fmt: skip
    progress = Terminal(err(), quiet=quiet)
    with stoppable():
        if resume_run:
            prepared = resume(resume_run, places(), progress)
        else:
            options = Options(
                profile=profile,
                engine=engine,
                device=device,
                gpus=gpus,
                workloads=_split(workload),
                files=tuple(path.absolute() for path in workload_file or ()),
                images=_pairs(image, "--image"),
                base=base,
                legs=legs,
                analysis=analysis,
                params=_pairs(param, "--param"),
                trials=trials,
                out=runs,
                data=data,
                interval_s=1 / rate if rate else 0.0,
                cpus=cpus,
                cpu_quota=cpu_quota,
                memory_bytes=None if memory is None else int(memory * 2**30),
                stall_s=stall,
                seed=seed,
                price=price,
            )
            prepared = prepare(resolve(options), places(), progress)
        measure(prepared, progress, as_json=as_json, quiet=quiet)


def _split(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(part for value in values or () for part in value.replace(",", " ").split())


def _pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        name, equals, text = value.partition("=")
        if not (name and equals and text):
            raise UsageError(f"{option} {value} is not NAME=VALUE.", hint=f"Write it as {option} name=value.")
        pairs[name] = text
    return pairs
