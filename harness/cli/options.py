"""The options that several commands share: what each means, and what is made of it, is said once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.destinations import folder_of_runs
from harness.errors import UsageError

RUN = "What to run"
WHERE = "Where to run it"
HOW = "How to measure"

RUNS = Path("runs")

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        help="A workload by name, or `all`; again for more. Default: the default suite.",
        rich_help_panel=RUN,
    ),
]
Variants = Annotated[
    str,
    typer.Option(
        help="Comma-separated: baseline, input-only, model-only, tuned. Default: all.",
        rich_help_panel=RUN,
    ),
]
Analysis = Annotated[
    bool,
    typer.Option(
        "--analysis/--no-analysis",
        help="Measure what holds each workload back, or its speed alone.",
        rich_help_panel=RUN,
    ),
]
WorkloadFile = Annotated[
    list[Path] | None,
    typer.Option(help="A workload file of your own; see examples/my_workload.py.", rich_help_panel=RUN),
]
Profile = Annotated[str, typer.Option("--profile", "-p", help="smoke, quick or full.", rich_help_panel=RUN)]
Param = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE, e.g. batch_size=64; again for more.", rich_help_panel=RUN),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="A file of trained weights (.h5, .keras) for the workloads that start from one.",
        rich_help_panel=RUN,
    ),
]
DataMode = Annotated[
    str, typer.Option(help="auto, real (fail without it) or procedural.", rich_help_panel=RUN)
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        "-d",
        help="auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated.",
        rich_help_panel=WHERE,
    ),
]
Gpus = Annotated[
    str,
    typer.Option(
        help="Which GPUs: indices, UUIDs or MIG UUIDs, comma-separated, or all.", rich_help_panel=WHERE
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine", "-e", help="auto, docker, podman or local (nothing isolated).", rich_help_panel=WHERE
    ),
]
Image = Annotated[
    list[str] | None,
    typer.Option(
        help="cpu=REF or cuda=REF: an image of your own that has Python and TensorFlow.",
        rich_help_panel=WHERE,
    ),
]
Base = Annotated[str | None, typer.Option(help="Base image to build on.", rich_help_panel=WHERE)]
Cpus = Annotated[str, typer.Option(help="Pin containers to these CPUs, e.g. 0-3,8.", rich_help_panel=WHERE)]
CpuQuota = Annotated[
    float | None,
    typer.Option(help="CPUs' worth of time for each container.", rich_help_panel=WHERE, min=0.01),
]
Memory = Annotated[
    float | None,
    typer.Option(help="Memory limit in GiB. Default: 90 % of the host's.", rich_help_panel=WHERE, min=0.1),
]
Trials = Annotated[
    int | None,
    typer.Option(help="Exactly so many trials instead of the profile's.", rich_help_panel=HOW, min=1),
]
Rate = Annotated[
    float,
    typer.Option(help="Telemetry samples a second; 0 for none.", rich_help_panel=HOW, min=0, max=100),
]
Stall = Annotated[
    float | None,
    typer.Option(help="End a trial that says nothing for so many seconds.", rich_help_panel=HOW, min=1),
]
CloudMetadata = Annotated[
    bool,
    typer.Option(
        "--cloud-metadata/--no-cloud-metadata",
        help="On a cloud's machine, record its instance type and region; waits at most a second.",
        rich_help_panel=HOW,
    ),
]
Seed = Annotated[int, typer.Option(help="For weights, shuffling and procedural data.", rich_help_panel=HOW)]
Runs = Annotated[
    Path,
    typer.Option("--out", "-o", help="Folder for run folders.", rich_help_panel=HOW, callback=folder_of_runs),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Go on with an interrupted run folder; other options are taken from it.",
        rich_help_panel=HOW,
    ),
]


# Of the commands that look at many runs.
OnlyWorkloads = Annotated[
    list[str] | None, typer.Option("--workload", "-w", help="Only these workloads; again for more.")
]
OnlyDevices = Annotated[
    list[str] | None, typer.Option("--device", "-d", help="Only these devices; again for more.")
]
Target = Annotated[
    str,
    typer.Option(
        "--out", "-o", help="Folder to write into, or one file as x.html; - prints the one format chosen."
    ),
]


def absolute(files: Sequence[Path] | None) -> tuple[Path, ...]:
    """Return paths that mean the same from any folder."""
    return tuple(path.absolute() for path in files or ())


def seconds_between(rate: float) -> float:
    """Return the sampler's period, seconds, 0 for no sampling, of samples a second."""
    return 1 / rate if rate else 0.0


def bytes_of(memory_gib: float | None) -> int | None:
    """Return GiB in bytes."""
    return None if memory_gib is None else int(memory_gib * 2**30)


def split(values: Sequence[str] | None) -> tuple[str, ...]:
    """Split words at commas and spaces."""
    return tuple(part for value in values or () for part in value.replace(",", " ").split())


def pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    """Read NAME=VALUE words of an option.

    Raises:
        UsageError: one of them is not that.
    """
    found = {}
    for value in values or ():
        name, equals, text = value.partition("=")
        if not (name and equals and text):
            raise UsageError(f"{option} {value} is not NAME=VALUE.", hint=f"Write it as {option} name=value.")
        found[name] = text
    return found
