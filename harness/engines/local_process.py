"""A trial that runs as a plain process of this host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from harness.engines import Exit
from harness.engines.container import LOG_BYTES, oom_kills
from workloads.protocol import SHARED_MEMORY

# How long the first process may take to end all others before its whole group is killed.
_GRACE_S = 10.0
# Counts since boot, in any control group.
_VMSTAT = Path("/proc/vmstat")


class LocalProcess:
    """A started trial.

    Args:
        process: its first process (init.py), whose standard input is the lease and whose output is the log.
        root: its private folder.
    """

    def __init__(self, process: subprocess.Popen[bytes], root: Path) -> None:
        self._process = process
        self._root = root
        self._log = bytearray()
        self._reader = threading.Thread(target=self._read, name=f"log-{process.pid}", daemon=True)
        self._reader.start()
        self._killed = False
        self._kills_before = oom_kills(_VMSTAT)
        self._exit: Exit | None = None

    @property
    def id(self) -> str:
        """The process id, as text."""
        return str(self._process.pid)

    @property
    def pid(self) -> int | None:
        """The first process' id."""
        return self._process.pid

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""
        if self._exit is None and (code := self._process.poll()) is not None:
            # The kernel counts for the whole host, so that only a death by SIGKILL that was not ours counts.
            murdered = code == -signal.SIGKILL and not self._killed
            self._exit = Exit(code=code, out_of_memory=murdered and oom_kills(_VMSTAT) > self._kills_before)
        return self._exit

    def log(self) -> str:
        """Return the end of its stdout and stderr, at most 64 KiB."""
        if self._process.poll() is not None:
            self._reader.join(_GRACE_S)
        return bytes(self._log).decode("utf-8", "replace")

    def kill(self) -> None:
        """End it and all its descendants at once; no error if it has ended."""
        if self._process.poll() is not None:
            return
        self._killed = True
        self._let_go()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def remove(self) -> None:
        """End it if it runs, and remove its private folder; no error if nothing is left."""
        self.kill()
        self.poll()
        self._let_go()
        self._reader.join(_GRACE_S)
        clear_away(self._root)

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream:
            while chunk := os.read(stream.fileno(), 2**16):
                self._log += chunk
                del self._log[:-LOG_BYTES]


def clear_away(root: Path) -> None:
    """Remove a trial's private folder and what it left in memory (workloads/storage.py names it)."""
    for folder in (root, *Path(SHARED_MEMORY).glob(f"{root.name}-*")):
        shutil.rmtree(folder, ignore_errors=True)
