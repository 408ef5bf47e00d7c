"""The application: the commands' names, and the one command that was given."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from harness import __version__
from harness.errors import Interrupted, UsageError

# Command -> what `tfbench --help` says of it, in that order. Each has a module of its name, with its `command`.
COMMANDS: Mapping[str, str] = {
    "bench": "Run workloads in containers, sample the host, and write one report.",
    "compare": "Compare runs: speeds, where a step's time goes, what differs between the machines.",
    "doctor": "Check what this host can run; test GPUs in a container.",
    "images": "Build the images without any network, from wheels that are fetched first.",
    "list": "List workloads; with --long their data, published results and cost.",
    "fleet": "Run the same plan on every node of a Ray cluster and compare the nodes.",
    "report": "Write a run's report again, also of an interrupted run.",
    "rerun": "Repeat a run from its report: the same plan, parameters, seed and trials.",
}


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments begin with; return its exit code.

    Raises:
        UsageError: the arguments cannot be parsed.
    """
    name = arguments[0]
    try:
        return application(name)(arguments, standalone_mode=False) or 0
    except typer.TyperException as error:
        hint = f"`tfbench {name} --help` lists the options." if name in COMMANDS else "See `tfbench --help`."
        raise UsageError(error.format_message(), hint=hint) from error
    except typer.Abort:
        return Interrupted.exit_code


def application(name: str) -> typer.Typer:
    """Return the command line with the command `name`, or with the summaries of all where there is no such one."""
    app = typer.Typer(
        name="tfbench",
        callback=_root,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if name in COMMANDS:
        # Only this one's module: those of all take half a second.
        app.command(name)(importlib.import_module(f"harness.cli.{name}").command)
    else:
        for each, summary in COMMANDS.items():
            app.command(each, help=summary)(lambda: None)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfbench {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Benchmark TensorFlow on this machine's CPU and GPUs, in containers, with one offline report."""
