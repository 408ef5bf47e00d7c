"""Run tfbench commands in this process, other programs, and a web server."""

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.cli import main
from tests.conftest import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    code: int
    out: str
    err: str


def tfbench(*arguments: object) -> Printed:
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


def output_of(*command: object, **environment: str) -> str:
    """Run a program in the checkout with additional environment variables; return its output."""
    done = subprocess.run(
        [*map(str, command)], env={**os.environ, **environment}, cwd=ROOT, check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stdout


def loaded_by(code: str) -> set[str]:
    """Run code in a new Python and return the modules it imported."""
    return set(output_of(sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)").split())


@contextmanager
def serve(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
