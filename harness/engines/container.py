"""A container of a Docker-compatible engine, observed without polling the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import psutil
from docker.errors import APIError, NotFound

from harness.cgroups import NoCgroupError, find
from harness.defaults import LOG_BYTES
from harness.engines import Exit
from harness.engines.docker_calls import LOST, engine_call
from harness.errors import EngineError

# Only a process that is stuck in a driver takes longer to end.
_KILL_WAIT_S = 10.0
# Timeout of requests that an engine answers at once, except that it may wait for a killed container itself.
_REQUEST_S = 20
_NOT_RUNNING = 409


class DockerContainer:
    """A started trial.

    Args:
        container_id: the engine's id of the container.
        cleanup: callbacks of `remove`, which close standard input (this ends the container), remove the
            container, and restore the owners of its folders.
    """

    def __init__(self, *, client: docker.DockerClient, container_id: str, cleanup: ExitStack) -> None:
        self._client = client
        self._id = container_id
        self._oom_kills = 0
        self._status: int | None = None
        self._lost: BaseException | None = None
        self._ended = threading.Event()
        with self._call("get the container's process"):
            pid = self._state()["Pid"]
        # None if it has already ended. psutil detects when the id is reused by another process.
        self._process: psutil.Process | None = None
        with suppress(psutil.NoSuchProcess):
            self._process = psutil.Process(pid) if pid else None
        self._oom_file = _oom_file(pid) if pid else None
        self._cleanup = cleanup.pop_all()
        threading.Thread(target=self._wait, name=f"wait-{container_id[:12]}", daemon=True).start()

    @property
    def id(self) -> str:
        """The engine's id of the container."""
        return self._id

    @property
    def pid(self) -> int | None:
        """Host process id of the first process; None if it has already ended."""
        return self._process.pid if self._process else None

    def poll(self) -> Exit | None:
        """Return how it ended; None while it is running."""
        if self._oom_file is not None:
            self._oom_kills = max(self._oom_kills, oom_kills(self._oom_file))
        if not self._ended.is_set():
            return None
        with self._call("get the container's exit status"):
            if self._lost is not None:
                raise self._lost
            killed = False
            with suppress(NotFound):  # removed by another process
                killed = self._state().get("OOMKilled", False)
        return Exit(code=self._status or 0, out_of_memory=killed or self._oom_kills > 0)

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr; "" if the container was removed."""
        data = b""
        with self._call("read the container's log"), suppress(NotFound):
            data = self._client.api.logs(self._id, stdout=True, stderr=True)
        return data[-LOG_BYTES:].decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill it; no error if it has ended."""
        if self._ended.is_set() and self._lost is None:
            return
        with self._call("kill the container"), suppress(NotFound):
            try:
                self._client.api.kill(self._id)
            except APIError as error:
                # The engine does not wait long for the end.
                if not self._ended.wait(_KILL_WAIT_S) and error.status_code != _NOT_RUNNING:
                    raise
        self._ended.wait(_KILL_WAIT_S)

    def remove(self) -> None:
        """Remove the container and restore the owners of its folders, even if the engine is gone."""
        try:
            self._cleanup.close()
        except EngineError:
            # Containers keep running without dockerd.
            with suppress(psutil.Error):
                if self._process:
                    self._process.kill()
            raise

    def _wait(self) -> None:
        try:
            self._status = int(self._client.api.wait(self._id)["StatusCode"])
        except LOST as error:
            self._lost = error
        self._ended.set()

    @contextmanager
    def _call(self, action: str) -> Iterator[None]:
        api = self._client.api
        timeout_s, api.timeout = api.timeout, _REQUEST_S
        try:
            with engine_call(action):
                yield
        finally:
            api.timeout = timeout_s

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._client.api.inspect_container(self._id)["State"]
        return state


def oom_kills(file: Path) -> int:
    """Return N from the line "oom_kill N" of a file; 0 if there is none."""
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
