"""Run tfbench commands in this process."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from harness.cli import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    code: int
    out: str
    err: str


def tfbench(*arguments: object) -> Printed:
    """Run a command; return its exit code and output."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["tfbench", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        return Printed(code=int(ended.code or 0), out=out.getvalue(), err=err.getvalue())
    finally:
        sys.argv = before
    raise AssertionError("main() did not exit")
