"""The engine for Docker and compatible engines: one hardened container per trial.

A trial is observed without polling the engine.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import docker
import psutil
from docker.errors import APIError, NotFound

from harness.cgroups import NoCgroupError, find
from harness.engines import OUT_DIR, ContainerSpec, Exit, Mount
from harness.engines.container_settings import (
    OWNER,
    accessible,
    container_options,
    host_options,
    identity_for,
    shown,
    with_inner,
    with_secrets_of,
)
from harness.engines.docker_client import (
    LOST,
    UNREADABLE,
    Daemon,
    close_stream,
    connect_first,
    describe,
    endpoints,
    engine_call,
    exit_code,
    id_of,
    remove_container,
    signal_start,
    timeout,
)
from harness.engines.owner import current_owner, owner_has_ended
from harness.errors import EngineError

# Only a process that is stuck in a driver takes longer to end.
_KILL_WAIT_S = 10.0
# Timeout of requests that an engine answers at once, except that it may wait for a killed container itself.
_REQUEST_S = 20
_NOT_RUNNING = 409
# Harnesses remove a container within seconds after its end.
_LEFT_AFTER = timedelta(hours=1)


class DockerEngine:
    """Run trials in containers; `client` also builds images."""

    def __init__(self, client: docker.DockerClient, daemon: Daemon) -> None:
        self.client = client
        self.daemon = daemon
        self.info = daemon.info

    @classmethod
    def connect(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Connect to the first available engine; raise EngineError with the endpoints tried."""
        client = connect_first(endpoints(environment))
        with engine_call("describe itself"):
            return cls(client, describe(client))

    def start(self, spec: ContainerSpec) -> DockerContainer:
        """Start a trial; a failed start leaves nothing behind."""
        out = Mount(container=OUT_DIR, host=spec.out, read_only=False)
        mounts = (*spec.mounts, out, *(spec.gpu.mounts if spec.gpu else ()))
        identity = identity_for(self.daemon, os.getuid(), os.getgid())
        api = self.client.api
        # Also cleans up after Ctrl-C during the start, when nothing else refers to the container.
        with ExitStack() as cleanup:
            cleanup.enter_context(accessible(mounts, identity.host_ids))
            file_systems = {partition.mountpoint for partition in psutil.disk_partitions(all=True)}
            mounts = with_inner(mounts, file_systems)
            with engine_call(f"start trial {spec.trial_id}"):
                image_environment = self._image_environment(spec)
                spec = with_secrets_of(spec, image_environment)
                host = api.create_host_config(**host_options(spec, self.daemon, identity, mounts))
                options = container_options(spec, identity, current_owner(), image_environment)
                name = f"tfbench-{secrets.token_hex(8)}"
                try:
                    container_id = id_of(api.create_container(name=name, host_config=host, **options))
                except BaseException:
                    # It may exist although the answer was lost.
                    with suppress(EngineError):
                        remove_container(self.client, name)
                    raise
                cleanup.callback(remove_container, self.client, container_id)
                stdin = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
                cleanup.callback(close_stream, stdin)
                api.start(container_id)
                signal_start(stdin)
            return DockerContainer(
                client=self.client, container_id=container_id, cleanup=cleanup, hidden=spec.hidden
            )

    def remove_stale(self, left_after: timedelta = _LEFT_AFTER) -> None:
        """Remove containers of killed harnesses, and those that nobody has removed for so long after their end."""
        with engine_call("list containers"):
            containers = self.client.api.containers(all=True, filters={"label": [OWNER]})
            found = [(id_of(each), each["Labels"].get(OWNER, "")) for each in containers]
        for container_id, owner in found:
            if owner_has_ended(owner) or self._ended_before(container_id, datetime.now(UTC) - left_after):
                remove_container(self.client, container_id)

    def _ended_before(self, container_id: str, time: datetime) -> bool:
        """Return whether a container has certainly ended before a time."""
        with suppress(*LOST, *UNREADABLE, APIError):
            state = self.client.api.inspect_container(container_id)["State"]
            return bool(
                state["Status"] in ("exited", "dead") and datetime.fromisoformat(state["FinishedAt"]) < time
            )
        return False

    def answers(self) -> bool:
        """Return whether the engine answers."""
        with suppress(*LOST, *UNREADABLE):
            return bool(self.client.ping())
        return False

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _image_environment(self, spec: ContainerSpec) -> Mapping[str, str]:
        """Return the image's environment variables."""
        config = self.client.images.get(spec.image.digest or spec.image.reference).attrs["Config"] or {}
        return dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)


class DockerContainer:
    """A started trial.

    Args:
        hidden: texts that the log does not contain.
        cleanup: callbacks of `remove`, which close standard input (this ends the container), remove the
            container, and restore the owners of its folders.
    """

    def __init__(
        self,
        *,
        client: docker.DockerClient,
        container_id: str,
        cleanup: ExitStack,
        hidden: Sequence[str] = (),
    ) -> None:
        self._hidden = hidden
        self._client = client
        self.id = container_id
        self._oom_kills = 0
        self._status: int | None = None
        self._lost: BaseException | None = None
        self._ended = threading.Event()
        with self._call("get the container's process"):
            pid = max(0, int(self._state()["Pid"] or 0))
        # None if it has already ended. psutil detects when the id is reused by another process.
        self._process: psutil.Process | None = None
        with suppress(psutil.NoSuchProcess):
            self._process = psutil.Process(pid) if pid else None
        self._oom_file = _oom_file(pid) if pid else None
        threading.Thread(target=self._wait, name=f"wait-{container_id[:12]}", daemon=True).start()
        self._cleanup = cleanup.pop_all()

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
            killed = removed = False
            try:
                killed = self._state().get("OOMKilled", False)
            except NotFound:
                removed = True
        return Exit(code=self._status or 0, out_of_memory=killed or self._oom_kills > 0, removed=removed)

    def paused(self) -> bool:
        """Return whether somebody has paused it."""
        with self._call("get the container's state"):
            return bool(self._state().get("Paused", False))

    def seen(self, path: str) -> str:
        """Return a path of the container as its process sees it: as it is."""
        return path

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr, without what is hidden; "" if the container was removed."""
        data = b""
        with self._call("read the container's log"), suppress(NotFound):
            data = self._client.api.logs(self.id, stdout=True, stderr=True)
        return shown(data, self._hidden)

    def kill(self) -> None:
        """Kill it; no error if it has ended."""
        if self._ended.is_set() and self._lost is None:
            return
        with self._call("kill the container"), suppress(NotFound):
            try:
                self._client.api.kill(self.id)
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
            self._status = exit_code(self._client.api.wait(self.id))
        except (*LOST, *UNREADABLE) as error:
            self._lost = error
        self._ended.set()

    @contextmanager
    def _call(self, action: str) -> Iterator[None]:
        with timeout(self._client.api, _REQUEST_S), engine_call(action):
            yield

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._client.api.inspect_container(self.id)["State"]
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
