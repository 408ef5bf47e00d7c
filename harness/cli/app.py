"""The application that commands register with."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from harness import __version__
from harness.paths import Paths, paths_here
from harness.untrusted import printable

app = typer.Typer(
    name="tfbench",
    help="Benchmark TensorFlow on this machine's CPU and GPUs, in containers, with one offline report.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def paths() -> Paths:
    """Return this checkout, and $TFBENCH_CACHE or the user's cache folder."""
    return paths_here(os.environ)


def command_line() -> str:
    """Return the command as the user gave it."""
    return printable(shlex.join(["tfbench", *sys.argv[1:]]))


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
