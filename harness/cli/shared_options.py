"""Options shared by several commands.

`takes_options` adds the options declared in harness.options to a command, which receives them as one `Options` value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from harness.errors import UsageError
from harness.model.workload import INSIDE
from harness.options import DEFAULTS, HOW, OPTIONS, WHAT, Option, Options

Command = Callable[..., None]


def _module(name: str, folders: Sequence[Path]) -> str:
    """Return the path of a module of a package, with the folder that has the package marked in it."""
    parts = name.split(".")
    if all(part.isidentifier() for part in parts):
        for folder in (Path.cwd(), *folders):
            for file in (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__main__.py"):
                if (folder / file).is_file():
                    return f"{folder}{INSIDE}{file}"
            if (folder / "/".join(parts) / "__init__.py").is_file():
                raise UsageError(
                    f"{name} is a package without a module __main__.",
                    hint=f"Name one of its modules: -m {name}.MODULE",
                )
    raise UsageError(
        f"There is no module {name} here.",
        hint="Give the name as for python3 -m, in the folder that has its package, or name that folder with --mount.",
    )


Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Continue this interrupted run, with its original options.",
        rich_help_panel=HOW,
    ),
]


Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="With --resume of a run of others: allow its engine, images, files, variables, GPUs and limits.",
        rich_help_panel=HOW,
    ),
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
_MODULE = typer.Option(
    "-m",
    help="Module of a package to run, as in python3 -m PACKAGE.MODULE; repeatable.",
    rich_help_panel=WHAT,
)


def takes_options(only: Collection[str] = OPTIONS) -> Callable[[Command], Command]:
    """Add options of a run, by their fields, to a command; its parameter `options` receives them as one value."""
    declared = {name: option for name, option in OPTIONS.items() if name in only}

    def decorate(command: Command) -> Command:
        def parsed(**arguments: Any) -> None:
            # Typer passes None for a repeatable option that was not given.
            values = {name: value for name in declared if (value := arguments.pop(name)) is not None}
            for name, value in values.items():
                if isinstance(value, str) and not value.strip(", "):
                    raise UsageError(
                        f"{OPTIONS[name].flag} is empty.",
                        hint="Leave it out to use its default. A shell variable may be empty.",
                    )
            fields = {
                name: parse(OPTIONS[name].flag, value) if (parse := OPTIONS[name].parse) else value
                for name, value in values.items()
            }
            if modules := arguments.pop(_MODULES, None):
                found = [_module(name, fields.get("mounts", ())) for name in modules]
                fields["workloads"] = (*fields.get("workloads", ()), *found)
            command(options=replace(DEFAULTS, **fields), **arguments)

        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(
                name,
                keyword,
                default=getattr(DEFAULTS, name) or None,
                annotation=Annotated[_read_as(name), _for_typer(option)],
            )
            for name, option in declared.items()
        ]
        if "workloads" in declared:
            module = Annotated[list[str] | None, _MODULE]
            options.append(inspect.Parameter(_MODULES, keyword, default=None, annotation=module))
        own = inspect.signature(command, eval_str=True).parameters.values()
        others = [parameter.replace(kind=keyword) for parameter in own if parameter.name != "options"]
        parsed.__signature__ = inspect.Signature([*options, *others])  # type: ignore[attr-defined]
        parsed.__name__, parsed.__doc__ = command.__name__, command.__doc__
        return parsed

    return decorate


_TYPES = get_type_hints(Options)


def _read_as(name: str) -> Any:
    """Return the type by which Typer reads a field: text for what the field's declaration parses."""
    if get_origin(_TYPES[name]) in (tuple, Mapping):
        return list[str] | None
    number = float in (_TYPES[name], *get_args(_TYPES[name]))
    return str | None if OPTIONS[name].parse and number else _TYPES[name]


def _for_typer(option: Option) -> Any:
    if not option.names:
        return typer.Argument(metavar="[WORKLOAD]...", help=option.help)
    return typer.Option(*option.names.split(), help=option.help, rich_help_panel=option.heading)


Price = Annotated[str, _for_typer(OPTIONS["price"])]
