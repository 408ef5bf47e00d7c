"""A proxy for the engine's Unix socket; killing its process simulates the loss of the engine."""

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
def engine_proxy(lost: str = "", instead: str = "") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a proxy; the engine's answers to requests of paths with `lost` are replaced by the JSON `instead`."""
    # Not in pytest's folder: a socket's path is limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tfb-") as folder:
        proxy = Path(folder) / "engine.sock"
        code = f"from tests.docker.unix_proxy import serve; serve({str(proxy)!r}, {SOCKET!r}, {lost!r}, {instead!r})"
        with subprocess.Popen([sys.executable, "-c", code], text=True, cwd=ROOT) as process:
            try:
                wait_until(proxy.exists)
                yield f"unix://{proxy}", process
            finally:
                process.kill()


def serve(path: str, target: str, lost: str, instead: str) -> None:
    """Forward connections from the socket at `path` to the one at `target`, forever; see engine_proxy."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(target)
        request = client.recv(2**16)
        server.sendall(request)
        # The rest of a request may follow its head.
        threading.Thread(target=_copy, args=(client, server), daemon=True).start()
        if lost and lost.encode() in request.partition(b"\r\n")[0]:
            answering = threading.Thread(
                target=_replace, args=(client, server, instead.encode()), daemon=True
            )
        else:
            answering = threading.Thread(target=_copy, args=(server, client), daemon=True)
        answering.start()


def _replace(client: socket.socket, server: socket.socket, answer: bytes) -> None:
    with suppress(OSError), client, server:
        server.recv(2**16)
        if answer:
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
            )
            client.sendall(head.encode() + answer)
        client.shutdown(socket.SHUT_RDWR)  # another thread still reads


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(2**16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
