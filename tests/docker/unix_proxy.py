"""A Unix socket that leads to another: when its process is killed, the engine behind it is gone."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


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
