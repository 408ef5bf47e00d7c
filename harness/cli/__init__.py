"""The command line: `tfbench doctor|list|images|bench|report`. Only this package prints or exits."""

from __future__ import annotations

import sys

from rich.console import Console

from harness.cli.app import app
from harness.cli.console import show_error
from harness.errors import TfbenchError


def main() -> None:
    """Run the command line and turn every error into a message, what to try, and its exit code."""
    # Commands register themselves with the application when their module is imported.
    from harness.cli import bench, doctor, images, listing, report  # noqa: F401, PLC0415

    try:
        app()
    except TfbenchError as error:
        show_error(Console(stderr=True), error)
        sys.exit(error.exit_code)
