"""The command line. Only this package prints or exits."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from harness.errors import Interrupted, TfbenchError

# Command -> the module that registers it with the application when it is imported; in the order of `--help`.
COMMANDS = {
    "bench": "bench",
    "compare": "compare",
    "doctor": "doctor",
    "images": "images",
    "list": "list",
    "fleet": "fleet",
    "report": "report",
    "rerun": "rerun",
    "sweep": "sweep",
}


def main() -> None:
    """Run the command line and turn every error into a message, what to try, and its exit code."""
    try:
        # Imported here, so that Ctrl-C during the imports is no traceback either.
        for module in _needed(sys.argv[1:]):
            importlib.import_module(f"harness.cli.{module}")
        from harness.cli.app import app, err  # noqa: PLC0415
        from harness.cli.console import show_error  # noqa: PLC0415

        app()
    except TfbenchError as error:
        show_error(err(), error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)


def _needed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the modules to import: the named command's alone, since all of them take half a second."""
    named = COMMANDS.get(arguments[0]) if arguments else None
    return (named,) if named else tuple(COMMANDS.values())
