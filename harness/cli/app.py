"""The application that commands register with, and what several of them share."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness import __version__
from harness.paths import Paths, paths_here

app = typer.Typer(
    name="tfbench",
    help="Benchmark TensorFlow on this machine's CPU and GPUs, in containers, with one offline report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines on standard output.")]
Price = Annotated[
    str,
    typer.Option(
        help="What an hour of the machine costs: 0.526, or cpu=0.20,gpu=0.526; electricity=0.30 beside it for a "
        "kilowatt-hour. See docs/cost.md."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def paths() -> Paths:
    """Return where things lie: the checkout, and $TFBENCH_CACHE or the user's cache folder."""
    return paths_here(os.environ)


def command_line() -> str:
    """Return the command as the user gave it."""
    return shlex.join(["tfbench", *sys.argv[1:]])


def charts_kept() -> Path:
    """Return the folder in which the charts' code is kept between pages."""
    return paths().cache / "charts"


def err() -> Console:
    """Return the console for progress and messages: standard error."""
    return Console(stderr=True, highlight=False)


def out() -> Console:
    """Return the console for results: standard output."""
    return Console(highlight=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Benchmark TensorFlow on this machine's CPU and GPUs."""
