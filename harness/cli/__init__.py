"""The command line. Only this package prints or exits."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from contextlib import suppress

from harness.errors import Interrupted, StoreError, TfbenchError
from harness.untrusted import printable


def main() -> None:
    """Run the command line; turn exceptions into an error message, a hint and an exit code."""
    # File names and labels may contain characters that the locale cannot encode.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        # Imported here so that Ctrl-C during the imports does not print a traceback.
        from harness.cli.app import run  # noqa: PLC0415

        code = run(sys.argv[1:] or ["--help"])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = Interrupted.exit_code
    except Exception as error:
        failure = _failure(error)
        code = failure.exit_code
        from harness.cli.console import show_error  # noqa: PLC0415

        with suppress(OSError):
            show_error(failure)
    sys.exit(code)


def _failure(error: Exception) -> TfbenchError:
    """Convert an exception to a TfbenchError; the traceback of an unexpected one goes to a log file."""
    if isinstance(error, TfbenchError):
        return error
    if isinstance(error, OSError):
        _discard_output()
        what = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
        return StoreError(
            f"System error: {printable(what, 500)}.",
            hint="Check the path, its permissions and the disk.",
        )
    with tempfile.NamedTemporaryFile("w", prefix="tfbench-", suffix=".log", delete=False) as log:
        log.write("".join(traceback.format_exception(error)))
    return TfbenchError(
        f"Unexpected {type(error).__name__}: {printable(' '.join(str(error).split()), 300)}",
        hint=f"Report this with the traceback in {log.name}.",
    )


def _discard_output() -> None:
    """Redirect a broken standard output to /dev/null, because Python flushes it again at exit."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
