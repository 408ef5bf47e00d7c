"""The command line. Only this package prints or exits."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress

from harness.errors import Interrupted, StoreError, TfbenchError
from harness.untrusted import printable

# A command is registered when its module, which has its name, is imported; in the order of `--help`.
COMMANDS = ("bench", "compare", "doctor", "images", "list", "fleet", "report", "rerun", "sweep")


def main() -> None:
    """Run the command line and turn every exception into a message, what to try, and its exit code."""
    try:
        # Imported here, so that Ctrl-C during the imports is no traceback either.
        for command in _needed(sys.argv[1:]):
            importlib.import_module(f"harness.cli.{command}")
        from harness.cli.app import app  # noqa: PLC0415

        # Names of files and labels hold what no locale has to have.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            app()
        finally:
            sys.stdout.flush()
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


def _needed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the modules to import: the named command's alone, since all of them take half a second."""
    return arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS


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
