"""A Unix socket that leads to another: when its process is killed, the engine behind it is gone."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.endtoend import ROOT, wait_until

SOCKET = "/var/run/docker.sock"


@contextmanager
def engine_behind_a_door() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield a URL of the engine and the process that it goes through: when that is killed, it is gone."""
    # Not pytest's folder: a socket's path must fit into 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tfb-") as folder:
        door = Path(folder) / "engine.sock"
        code = f"from tests.docker.unix_proxy import serve; serve({str(door)!r}, {SOCKET!r})"
        with subprocess.Popen([sys.executable, "-c", code], text=True, cwd=ROOT) as process:
            try:
                wait_until(door.exists)
                yield f"unix://{door}", process
            finally:
                process.kill()


def serve(path: str, behind: str) -> None:
    """Answer on the socket at `path` with what the one at `behind` says, for ever."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(behind)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(2**16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
