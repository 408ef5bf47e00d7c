"""The command line: `tfbench doctor|list|images|bench|report`. Only this package prints or exits."""

from __future__ import annotations

import sys

from harness.errors import Interrupted, TfbenchError


def main() -> None:
    """Run the command line and turn every error into a message, what to try, and its exit code."""
    try:
        # Imported here, so that Ctrl-C during the imports is no traceback either. Commands register
        # themselves with the application when their module is imported.
        from harness.cli import bench, doctor, images, listing, report  # noqa: F401, PLC0415
        from harness.cli.app import app, err  # noqa: PLC0415
        from harness.cli.console import show_error  # noqa: PLC0415

        app()
    except TfbenchError as error:
        show_error(err(), error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)
