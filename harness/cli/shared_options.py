"""Options shared by several commands.

`OPTIONS` declares an option for each field of harness.model.run.Options; `takes_options` adds them to a command,
which receives them as one `Options` value.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from harness.errors import UsageError, on_disk
from harness.model.run import Options
from harness.model.workload import INSIDE, SCRIPTS

Command = Callable[..., None]

_what = partial(typer.Option, rich_help_panel="What to run")
_where = partial(typer.Option, rich_help_panel="Where to run it")
_how = partial(typer.Option, rich_help_panel="How to measure")


def split(values: Sequence[str]) -> tuple[str, ...]:
    """Split words at commas and spaces."""
    return tuple(part for value in values for part in value.replace(",", " ").split())


def _workloads(values: Sequence[str]) -> tuple[str, ...]:
    """Return names of workloads, and paths of scripts as absolute ones."""
    if not all(value.strip(", ") for value in values):
        raise UsageError(
            "The name of a workload is empty.", hint="A shell variable may be empty. See `tfbench list`."
        )
    scripts = {value: str(Path(value).absolute()) for value in values if value.endswith(SCRIPTS)}
    return tuple(
        each for value in values for each in ([scripts[value]] if value in scripts else split([value]))
    )


def _module(name: str, folders: Sequence[Path]) -> str:
    """Return the path of a module of a package, with the folder that has the package marked in it."""
    parts = name.split(".")
    files = [f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__main__.py"]
    for folder in (Path.cwd(), *folders):
        for file in files if all(part.isidentifier() for part in parts) else []:
            if (folder / file).is_file():
                return f"{folder}{INSIDE}{file}"
    raise UsageError(
        f"There is no module {name} here.",
        hint="Give the name as for python3 -m, in the folder that has its package, or name that folder with --mount.",
    )


def _pairs(option: str, values: Sequence[str]) -> Mapping[str, str]:
    parts = [value.partition("=") for value in values]
    # Only a variable of the environment may be empty.
    if not all(name and sign and (text or option.startswith("--env")) for name, sign, text in parts):
        example = "cpu=NAME or --image cuda=NAME" if option == "--image" else "name=value"
        raise UsageError(f"{option} takes NAME=VALUE.", hint=f"Write it as {option} {example}.")
    pairs = {name: text for name, _, text in parts}
    if len(pairs) < len(values):
        raise UsageError(
            f"{option} has a name twice: {' '.join(name for name, _, _ in parts)}.",
            hint="Give each name once"
            + ("; a sweep is --param BATCH_SIZE=32,64." if option == "--param" else "."),
        )
    return pairs


def _mounts(values: Sequence[str]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.normpath(Path(value).absolute())) for value in values))


def _environment(option: str, values: Sequence[str]) -> Mapping[str, str]:
    pairs = _pairs(option, values)
    for name in pairs:
        if not (name.isascii() and name.isidentifier()):
            raise UsageError(
                f"{name} is not a valid name of an environment variable.",
                hint=f"Use letters, digits and _, e.g. {option} TF_CPP_MIN_LOG_LEVEL=2.",
            )
    return pairs


def _seconds(text: str) -> float:
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError as error:
        raise UsageError(f"--soak {text} is not a time.", hint="Write it as 90s, 10m or 1h.") from error


def _folder(path: Path) -> Path:
    with on_disk(path):  # its parent may be closed
        if path.is_dir() or not (path.exists() or path.suffix == ".html"):
            return path
    raise UsageError(
        f"--out {path} is a file, not a folder.",
        hint="Give a folder for runs, e.g. --out runs. To save a report elsewhere: tfbench report runs --out x.html",
    )


_PRICE = _how(
    help="Price per hour: 0.526, or cpu=0.20,gpu=0.526; electricity=0.30 per kWh. See docs/cost.md."
)

Price = Annotated[str, _PRICE]
Resume = Annotated[
    Path | None, _how("--resume", help="Continue this interrupted run, with its original options.")
]


Accept = Annotated[
    Path | None,
    typer.Option(
        "--accept",
        help="A file of limits for the machine, such as limits = ['health = ok', 'capability.bf16 >= 650 TFLOP/s', "
        "'resnet50.tuned >= 0.97 of H100']. `tfbench compare --write-limits RUN` writes one; docs/limits.md and the "
        "details of a report have all names. Exit code 13 if one is missed, else 14 if some are undecided or not "
        "measured.",
    ),
]
References = Annotated[
    list[Path] | None,
    typer.Option(
        "--reference", help="File of a known machine to compare with, or a folder of such files; repeatable."
    ),
]

# For commands that read finished runs.
Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="html, md, json, csv, ...; comma-separated. See docs/report.md and docs/compare.md.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder, or one file such as x.html; - prints to standard output."),
]

# Adds to the workloads.
_MODULES = "modules"
_MODULE = _what("-m", help="Module of a package to run, as in python3 -m PACKAGE.MODULE; repeatable.")

OPTIONS: Mapping[str, Any] = {
    "workloads": typer.Argument(
        metavar="[WORKLOAD]...",
        help="Built-in workloads, `all`, or paths of scripts and notebooks. Default: those marked * in `tfbench list`.",
    ),
    "arguments": _what("--arg", help="Command-line argument of the scripts; repeatable."),
    "environment": _what(
        "--env",
        help="NAME=VALUE: environment variable of the scripts, recorded without its value; repeatable.",
    ),
    "public_environment": _what("--env-public", help="NAME=VALUE: the same, recorded with its value."),
    "mounts": _what("--mount", help="File or folder that the scripts read, at the same path; repeatable."),
    "call": _what("--call", help="Which call of fit to measure, if a script has several."),
    "profile": _what("--profile", "-p", help="smoke, quick or full."),
    "variants": _what(help="Comma-separated, e.g. baseline,tuned; see docs/workloads.md."),
    "analysis": _what(help="Measure what limits each workload, not only its speed."),
    "machine": _what(
        help="Measure what the machine itself can do: half a minute per GPU, ten seconds for the CPU."
    ),
    "soak_s": _what("--soak", help="Saturate each device this long, e.g. 10m, to see what it sustains."),
    "params": _what(
        "--param", help="NAME=VALUE of a constant of the script, or NAME=32,64,128 for a sweep; repeatable."
    ),
    "data": _what(help="auto, real (fail if unavailable) or procedural."),
    "device": _where(
        "--device", "-d", help="auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated."
    ),
    "gpus": _where(help="GPUs to use: indices, UUIDs or MIG UUIDs, comma-separated, or all."),
    "engine": _where("--engine", "-e", help="auto, docker (Podman too) or local (no isolation)."),
    "images": _where("--image", help="cpu=REF or cuda=REF: your own image with TensorFlow 2.16 or newer."),
    "packages": _where(
        "--with",
        help="Libraries to add to the image, e.g. pandas,scikit-learn, or auto: what the scripts import.",
    ),
    "network": _where(
        "--network", help="Let the scripts download; what libraries fetch is kept for runs without."
    ),
    "cpus": _where(help="Pin containers to these CPUs, e.g. 0-3,8."),
    "cpu_quota": _where(help="CPU time limit of each container, in CPUs."),
    "memory_gib": _where("--memory", help="Memory limit in GiB. Default: 90 % of the host's."),
    "trials": _how(help="Fixed number of trials (rounds of readings). Default: depends on the profile."),
    "rate_hz": _how("--rate", help="Telemetry samples per second; 0 turns telemetry off."),
    "stall_s": _how("--stall", help="Kill a trial after this many seconds without an event."),
    "seed": _how(help="Random seed for weights, shuffling and procedural data."),
    "price": _PRICE,
    "cloud_metadata": _how(
        help="Ask the cloud for instance type, zone, lifecycle, image (at most 1 s) and notices of termination."
    ),
    "out": _how("--out", "-o", help="Parent folder of run folders.", callback=_folder),
}
# Fields whose type differs on the command line: the type that Typer parses, and the conversion to the field.
_PARSERS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "workloads": (list[str], _workloads),
    "arguments": (list[str], tuple),
    "environment": (list[str], partial(_environment, "--env")),
    "public_environment": (list[str], partial(_environment, "--env-public")),
    "mounts": (list[str], _mounts),
    "params": (list[str], partial(_pairs, "--param")),
    "images": (list[str], partial(_pairs, "--image")),
    "packages": (list[str], split),
    "soak_s": (str, _seconds),
}


def takes_options(only: Collection[str] = OPTIONS) -> Callable[[Command], Command]:
    """Add the options of a run to a command; its parameter `options` receives them as one value."""
    names = [name for name in OPTIONS if name in only]
    types = {**get_type_hints(Options), **{name: type_ | None for name, (type_, _) in _PARSERS.items()}}
    defaults = Options()

    def decorate(command: Command) -> Command:
        def parsed(**arguments: Any) -> None:
            # Typer passes None for a repeatable option that was not given.
            values = {name: value for name in names if (value := arguments.pop(name)) is not None}
            for name, value in values.items():
                if isinstance(value, str) and not value.strip(", "):
                    raise UsageError(
                        f"--{name.removesuffix('_s')} is empty.",
                        hint="Leave it out to use its default. A shell variable may be empty.",
                    )
            fields = {
                name: _PARSERS[name][1](value) if name in _PARSERS else value
                for name, value in values.items()
            }
            if modules := arguments.pop(_MODULES, None):
                found = [_module(name, fields.get("mounts", ())) for name in modules]
                fields["workloads"] = (*fields.get("workloads", ()), *found)
            command(options=replace(defaults, **fields), **arguments)

        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(
                name,
                keyword,
                default=getattr(defaults, name) or None,
                annotation=Annotated[types[name], OPTIONS[name]],
            )
            for name in names
        ]
        if "workloads" in names:
            module = Annotated[list[str] | None, _MODULE]
            options.append(inspect.Parameter(_MODULES, keyword, default=None, annotation=module))
        own = inspect.signature(command, eval_str=True).parameters.values()
        others = [parameter.replace(kind=keyword) for parameter in own if parameter.name != "options"]
        parsed.__signature__ = inspect.Signature([*options, *others])  # type: ignore[attr-defined]
        parsed.__name__, parsed.__doc__ = command.__name__, command.__doc__
        return parsed

    return decorate
