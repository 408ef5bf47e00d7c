"""The options that several commands share, each declared once.

`DECLARED` has an option for each field of harness.model.options.Options; `takes_options` gives a command those of
them that it wants, and hands them over as one value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.output import folder_of_runs
from harness.defaults import MOST_MEMORY_GIB, MOST_RATE_HZ
from harness.errors import UsageError
from harness.model.options import Options

Command = Callable[..., None]

_what = partial(typer.Option, rich_help_panel="What to run")
_where = partial(typer.Option, rich_help_panel="Where to run it")
_how = partial(typer.Option, rich_help_panel="How to measure")


def absolute(files: Sequence[Path]) -> tuple[Path, ...]:
    """Return paths that mean the same from any folder."""
    return tuple(path.absolute() for path in files)


def split(values: Sequence[str]) -> tuple[str, ...]:
    """Split words at commas and spaces."""
    return tuple(part for value in values for part in value.replace(",", " ").split())


def _pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for value in values:
        name, _, text = value.partition("=")
        if not (name and text):
            raise UsageError(f"{option} {value} is not NAME=VALUE.", hint=f"Write it as {option} name=value.")
        result[name] = text
    return result


Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")]
Price = Annotated[
    str,
    _how(
        help="Price of an hour: 0.526, or cpu=0.20,gpu=0.526; electricity=0.30 adds a kilowatt-hour. See docs/cost.md."
    ),
]
Runs = Annotated[Path, _how("--out", "-o", help="Folder for run folders.", callback=folder_of_runs)]
Resume = Annotated[Path | None, _how("--resume", help="Continue an interrupted run with its own options.")]

DECLARED: Mapping[str, Any] = {
    "workloads": Annotated[
        list[str] | None,
        _what(
            "--workload", "-w", help="A workload by name, or `all`; repeatable. Default: the default suite."
        ),
    ],
    "files": Annotated[
        list[Path] | None,
        _what("--workload-file", help="Your own workload file; see examples/my_workload.py."),
    ],
    "profile": Annotated[str, _what("--profile", "-p", help="smoke, quick or full.")],
    "variants": Annotated[
        str,
        _what(help="Comma-separated, e.g. baseline,tuned; see docs/workloads.md."),
    ],
    "analysis": Annotated[
        bool,
        _what("--analysis/--no-analysis", help="Measure what limits each workload, or only its speed."),
    ],
    "params": Annotated[
        list[str] | None,
        _what(
            "--param",
            help="NAME=VALUE, e.g. batch_size=64; NAME=32,64,128 is a sweep over these. Repeatable.",
        ),
    ],
    "data": Annotated[str, _what(help="auto, real (fail without) or procedural.")],
    "weights": Annotated[
        Path | None,
        _what(help="Trained weights (.h5, .keras) for workloads that use them."),
    ],
    "device": Annotated[
        str,
        _where(
            "--device",
            "-d",
            help="auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated.",
        ),
    ],
    "gpus": Annotated[str, _where(help="Which GPUs: indices, UUIDs or MIG UUIDs, comma-separated, or all.")],
    "engine": Annotated[str, _where("--engine", "-e", help="auto, docker, podman or local (no isolation).")],
    "images": Annotated[
        list[str] | None,
        _where("--image", help="cpu=REF or cuda=REF: your own image with Python and TensorFlow."),
    ],
    "base": Annotated[str | None, _where(help="Base image to build on.")],
    "cpus": Annotated[str, _where(help="Pin containers to these CPUs, e.g. 0-3,8.")],
    "cpu_quota": Annotated[float | None, _where(help="CPU time limit of each container, in CPUs.", min=0.01)],
    "memory_bytes": Annotated[
        float | None,
        _where("--memory", help="Memory limit in GiB. Default: 90 % of the host's.", min=0.1),
    ],
    "trials": Annotated[int | None, _how(help="Number of trials, instead of the profile's.", min=1)],
    "rate_hz": Annotated[
        float, _how("--rate", help="Telemetry samples a second; 0 for none.", min=0, max=MOST_RATE_HZ)
    ],
    "stall_s": Annotated[
        float | None, _how("--stall", help="End a trial after this many seconds without an event.", min=1)
    ],
    "seed": Annotated[int, _how(help="For weights, shuffling and procedural data.")],
    "price": Price,
    "cloud_metadata": Annotated[
        bool,
        _how(
            "--cloud-metadata/--no-cloud-metadata",
            help="Record instance type and region on cloud machines (at most 1 s).",
        ),
    ],
    "out": Runs,
}


# What is made of the words of an option before it goes into Options.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "workloads": split,
    "files": absolute,
    "params": partial(_pairs, "--param"),
    "images": partial(_pairs, "--image"),
    "weights": Path.absolute,
    # More than there can be stays that, and infinite and not-a-number too, for which there is no whole number.
    "memory_bytes": lambda gib: int(gib * 2**30) if 0 <= gib <= MOST_MEMORY_GIB else 1 << 62,
}


def takes_options(without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Add the options of a run to a command; its parameter `options` receives them as one value.

    Args:
        without: fields of Options that the command has no option for.
    """
    declared = {name: option for name, option in DECLARED.items() if name not in without}
    usual = Options()

    def decorate(command: Command) -> Command:
        def parsed(**given: Any) -> None:
            # Typer has None for an option that may be given several times and was not given.
            words = {name: word for name in declared if (word := given.pop(name)) is not None}
            fields = {name: _READ[name](word) if name in _READ else word for name, word in words.items()}
            command(options=replace(usual, **fields), **given)

        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(name, keyword, default=getattr(usual, name) or None, annotation=option)
            for name, option in declared.items()
        ]
        own = inspect.signature(command, eval_str=True).parameters.values()
        rest = [each.replace(kind=keyword) for each in own if each.name != "options"]
        parsed.__signature__ = inspect.Signature([*options, *rest])  # type: ignore[attr-defined]
        parsed.__name__, parsed.__doc__ = command.__name__, command.__doc__
        return parsed

    return decorate


# Of the commands that look at finished runs.
Formats = Annotated[str | None, typer.Option("--format", "-f", help="html, md, json, csv; comma-separated.")]
Target = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder, or one file such as x.html; - prints the format chosen."),
]
