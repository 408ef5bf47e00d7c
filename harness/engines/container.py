"""One container of a Docker-compatible engine, watched without asking the engine again and again."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound
from requests.exceptions import ReadTimeout

from harness.cgroups import NoCgroupError, find
from harness.engines import Exit
from harness.engines.calls import LOST, engine_call, hang_up, remove_container
from harness.engines.owner import start_ticks
from harness.engines.ownership import TemporaryOwnership
from harness.errors import EngineError

LOG_BYTES = 64 * 1024
# The kernel ends a killed process at once, save one stuck in a driver.
KILLED_S = 10.0
_NOT_RUNNING = 409


class DockerContainer:
    """A started trial.

    Args:
        client: the engine.
        identity: the container's id.
        lease: the attached standard input; the container ends when it closes, so it is held until removal.
        ownership: folders to take back at the end.

    Raises:
        EngineError: the engine is gone.
    """

    def __init__(
        self, *, client: docker.DockerClient, identity: str, lease: Any, ownership: TemporaryOwnership
    ) -> None:
        self._client = client
        self._identity = identity
        self._lease = lease
        self._ownership = ownership
        self._oom_kills = 0
        self._exit: Exit | None = None
        self._status: int | None = None
        self._lost: BaseException | None = None
        self._ended = threading.Event()
        with engine_call("get the container's process"):
            self._pid: int | None = self._state()["Pid"] or None
        self._started = start_ticks(self._pid) if self._pid else None
        self._oom_file = _oom_file(self._pid) if self._pid else None
        threading.Thread(target=self._wait, name=f"wait-{identity[:12]}", daemon=True).start()

    @property
    def id(self) -> str:
        """The engine's name for it."""
        return self._identity

    @property
    def pid(self) -> int | None:
        """Process id on this host of the container's first process; None once it has ended."""
        return self._pid

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs.

        Raises:
            EngineError: the engine is gone.
        """
        if self._exit is not None:
            return self._exit
        if self._oom_file is not None:
            self._oom_kills = max(self._oom_kills, oom_kills(self._oom_file))
        if not self._ended.is_set():
            return None
        with engine_call("get the container's exit status"):
            if self._lost is not None:
                raise self._lost
            killed = self._was_out_of_memory()
        self._exit = Exit(code=self._status or 0, out_of_memory=killed or self._oom_kills > 0)
        return self._exit

    def log(self) -> str:
        """Return the end of its stdout and stderr, at most 64 KiB.

        Raises:
            EngineError: the engine is gone.
        """
        with engine_call("read the container's log"):
            try:
                data: bytes = self._client.api.logs(self._identity, stdout=True, stderr=True)
            except NotFound:
                return ""
        return data[-LOG_BYTES:].decode("utf-8", "replace")

    def kill(self) -> None:
        """End it at once; no error if it has ended.

        Raises:
            EngineError: the engine is gone.
        """
        if self._ended.is_set() and self._lost is None:
            return
        try:
            with engine_call("kill the container"):
                self._client.api.kill(self._identity)
        except EngineError as error:
            cause = error.__cause__
            if not isinstance(cause, APIError):
                self._kill_process()
                raise
            if not isinstance(cause, NotFound) and cause.status_code != _NOT_RUNNING:
                raise
        self._ended.wait(KILLED_S)

    def remove(self) -> None:
        """Remove what is left of it; no error if nothing is.

        Raises:
            EngineError: the engine is gone; the harness' folders are its own again all the same.
        """
        try:
            remove_container(self._client, self._identity)
        except EngineError:
            self._kill_process()
            raise
        finally:
            hang_up(self._lease)
            self._ownership.take_back()

    def _wait(self) -> None:
        while True:
            try:
                self._status = int(self._client.api.wait(self._identity)["StatusCode"])
            except ReadTimeout:
                continue
            except LOST as error:
                self._lost = error
            self._ended.set()
            return

    def _kill_process(self) -> None:
        """End the container without its engine: it outlives a killed dockerd, and its process is ours."""
        if self._pid is not None and self._started is not None and start_ticks(self._pid) == self._started:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)

    def _was_out_of_memory(self) -> bool:
        try:
            return bool(self._state().get("OOMKilled"))
        except NotFound:
            # Somebody removed it by hand; the wait has told its status.
            return False

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._client.api.inspect_container(self._identity)["State"]
        return state


def oom_kills(file: Path) -> int:
    """Return how many processes the kernel has killed for memory, as a file's line "oom_kill N" says; else 0."""
    try:
        rows = (line.split() for line in file.read_text(encoding="ascii").splitlines())
    except OSError:
        return 0
    return next((int(row[1]) for row in rows if row[0] == "oom_kill"), 0)


def _oom_file(pid: int) -> Path | None:
    try:
        cgroup = find(Path("/"), pid)
    except NoCgroupError:
        return None
    return cgroup.file("memory", "memory.oom_control" if cgroup.version == 1 else "memory.events")
