"""The command line. Only this package prints or exits."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from harness.errors import Interrupted, StoreError, TfbenchError, UsageError
from harness.untrusted import printable

if TYPE_CHECKING:
    import typer

# Command -> what `tfbench --help` says of it, in that order. Each has a module of its name, which registers it.
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


def main() -> None:
    """Run the command line and turn every exception into a message, what to try, and its exit code."""
    try:
        # Imported here, so that Ctrl-C during the imports is no traceback either.
        import typer  # noqa: PLC0415

        from harness.cli.app import app  # noqa: PLC0415

        arguments = sys.argv[1:] or ["--help"]
        _register(app, arguments[0])
        # Names of files and labels hold what no locale has to have.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            code = app(arguments, standalone_mode=False)
        except typer.TyperException as error:
            hint = f"`tfbench {arguments[0]} --help` lists the options."
            is_command = arguments[0] in COMMANDS
            raise UsageError(
                error.format_message(), hint=hint if is_command else "See `tfbench --help`."
            ) from error
        except typer.Abort:
            code = Interrupted.exit_code
        finally:
            sys.stdout.flush()
        sys.exit(code or 0)
    except TfbenchError as error:
        _show(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)
    except OSError as error:
        _discard_output()
        _show(_refused(error))
        sys.exit(StoreError.exit_code)
    except Exception as error:
        _show(_unforeseen(error))
        sys.exit(TfbenchError.exit_code)


def _register(app: typer.Typer, command: str) -> None:
    """Register the command that was given, or what `--help` says of all: their modules take half a second."""
    # A shell completes the options of whichever command, which only its module knows.
    whole = [command] if command in COMMANDS else list(COMMANDS) if "_TFBENCH_COMPLETE" in os.environ else []
    for name in whole:
        importlib.import_module(f"harness.cli.{name}")
    for name, summary in () if whole else COMMANDS.items():
        if f"harness.cli.{name}" not in sys.modules:
            app.command(name, help=summary)(lambda: None)


def _refused(error: OSError) -> TfbenchError:
    """Return an error for what the system refused and nobody nearer has put into words."""
    what = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
    return StoreError(
        f"The system refused: {printable(what, 500)}.", hint="Check the path, its permissions and the disk."
    )


def _discard_output() -> None:
    """Have what standard output cannot take go nowhere: Python tries it once more when it ends."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unforeseen(error: Exception) -> TfbenchError:
    """Keep the traceback in a file and return an error that names it."""
    with tempfile.NamedTemporaryFile("w", prefix="tfbench-", suffix=".log", delete=False) as log:
        log.write("".join(traceback.format_exception(error)))
    return TfbenchError(
        f"Unexpected {type(error).__name__}: {printable(' '.join(str(error).split()), 300)}",
        hint=f"Report it with the traceback in {log.name}.",
    )


def _show(error: TfbenchError) -> None:
    from harness.cli.console import err, show_error  # noqa: PLC0415

    with suppress(OSError):
        show_error(err(), error)
