"""Build the Typer application and run one command."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from harness import __version__
from harness.errors import Interrupted, UsageError
from harness.options import OPTIONS

# Command -> summary in `tfbench --help`. Each is the function `command` in the module of the same name.
COMMANDS: Mapping[str, str] = {
    "bench": "Run workloads in containers, sample the host, and write one report.",
    "compare": "Compare runs: speeds, step-time breakdowns and differences between the machines.",
    "doctor": "Check what this host can run; test GPUs in a container.",
    "images": "Download wheels, then build the images without network.",
    "list": "List workloads; --long adds data and published results.",
    "fleet": "Run the same plan on every node of a Ray cluster and compare the nodes.",
    "report": "Regenerate the report of a run, complete or interrupted.",
    "rerun": "Repeat a run from its report, with the same plan, parameters, seed and trials.",
}


# Option -> the options that have an effect beside it, and why others have none.
_ALONE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "--resume": (
        ("--address", "--accept", "--fail-if-unhealthy", "--metrics-file", "--reference", "--yes"),
        "a resumed run keeps its original options",
    ),
    "--verify": (("run",), "it only checks a report"),
}


class _Command(TyperCommand):
    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        _check_effects(ctx)
        return super().invoke(ctx)


def run(arguments: Sequence[str]) -> int:
    """Run the command named by the first argument; return its exit code.

    Raises:
        UsageError: the arguments cannot be parsed.
        KeyboardInterrupt: the command was interrupted.
    """
    name = arguments[0]
    _check_empty(arguments)
    _check_scripts(arguments)
    try:
        code = build_app(name)(arguments, standalone_mode=False) or 0
    except typer.TyperException as error:
        hint = f"`tfbench {name} --help` lists the options." if name in COMMANDS else "See `tfbench --help`."
        raise UsageError(error.format_message(), hint=hint) from error
    except typer.Abort:  # the end of standard input, instead of an answer
        raise KeyboardInterrupt from None
    if code == Interrupted.exit_code:  # what Typer makes of one
        raise KeyboardInterrupt
    return code


def build_app(name: str) -> typer.Typer:
    """Return an application with the command `name`, or with all commands (help only) if it does not exist."""
    app = typer.Typer(
        name="tfbench",
        callback=_root,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if name in COMMANDS:
        # Importing the modules of all commands would take half a second.
        app.command(name, cls=_Command)(importlib.import_module(f"harness.cli.{name}").command)
    else:
        for command, summary in COMMANDS.items():
            app.command(command, help=summary)(lambda: None)
    return app


def _check_scripts(arguments: Sequence[str]) -> None:
    """Reject names of scripts that are read as options."""
    for before, word in pairwise(arguments):
        if re.fullmatch(r"-[^-].*[.]py", word) and before != "--arg" and os.path.exists(word):  # noqa: PTH110
            raise UsageError(f"{word} is read as an option.", hint=f"Write it as ./{word}")


def _check_empty(arguments: Sequence[str]) -> None:
    """Reject empty values, which are unset variables of a shell; a path would be the working directory."""
    for before, word in pairwise(arguments):
        named = re.fullmatch(r"(--[\w-]+)=", word)
        option = named[1] if named else before if before.startswith("-") else "An argument"
        if (named or not word) and "--arg" not in (before, option):
            raise UsageError(
                f"{option} is empty.",
                hint="Leave it out to use its default. A shell variable may be empty.",
            )


def _check_effects(context: typer.Context) -> None:
    """Reject options that would have no effect beside others; all that were given count, also defaults."""
    given = {}
    for parameter in context.command.params:
        source, value = context.get_parameter_source(parameter.name or ""), context.params.get(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            names = parameter.secondary_opts if value is False else parameter.opts
            given[names[0]] = " ".join([names[0], *map(str, value if isinstance(value, list) else [value])])
    for alone, (allowed, why) in _ALONE.items():
        others = [name for name in given if name not in (alone, *allowed)]
        if alone in given and others:
            raise _useless(others[0], alone, why)
    for option in OPTIONS.values():
        if option.flag in given:
            for pattern, why in option.useless_beside.items():
                for beside in (*given, *given.values()):
                    if re.fullmatch(pattern, beside):
                        raise _useless(option.flag, beside, why)


def _useless(option: str, beside: str, why: str) -> UsageError:
    return UsageError(
        f"With {beside}, {option} would have no effect: {why}.", hint=f"Leave out {option} or {beside}."
    )


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tfbench {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Benchmark TensorFlow on this machine's CPU and GPUs, in containers, with one offline report."""
