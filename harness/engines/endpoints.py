"""Find the first available container engine on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from harness.engines.docker_calls import BoundedClient
from harness.errors import EngineError

CONNECT_S = 10
# Timeout of a request that may copy an image.
REQUEST_S = 120
_UNIX = "unix://"
HINT = (
    "Install and start an engine with `make engine` (Podman: `systemctl --user start podman.socket`). If access "
    "is denied, run `sudo usermod -aG docker $USER` and log in again. If it uses another socket, set "
    "DOCKER_HOST=unix:///path/to/socket. To run without containers, use --engine local (make bench ENGINE=local)."
)
ELSEWHERE_HINT = (
    "Telemetry is read locally: run tfbench on that machine, or use `tfbench fleet` for several machines. To use "
    "this machine's engine, unset DOCKER_HOST."
)


def endpoints(environment: Mapping[str, str]) -> dict[Path, str]:
    """Return the sockets to try, in order, with their names; only DOCKER_HOST if it is set.

    Args:
        environment: environment variables; DOCKER_HOST and XDG_RUNTIME_DIR are used.

    Raises:
        EngineError: DOCKER_HOST refers to another machine.
    """
    if url := environment.get("DOCKER_HOST"):
        if not url.startswith(_UNIX):
            raise EngineError(
                f"DOCKER_HOST refers to another machine, {url.rpartition('@')[2]}.", hint=ELSEWHERE_HINT
            )
        return {Path(url.removeprefix(_UNIX)): "DOCKER_HOST"}
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return {
        Path("/var/run/docker.sock"): "Docker",
        runtime / "docker.sock": "rootless Docker",
        runtime / "podman/podman.sock": "Podman",
        Path("/run/podman/podman.sock"): "system Podman",
    }


def connect_first(sockets: Mapping[Path, str]) -> docker.DockerClient:
    """Return a client for the first socket that responds.

    Raises:
        EngineError: none responds; the message gives the reason for each.
    """
    failures = []
    for socket, name in sockets.items():
        try:
            if not socket.exists():
                raise FileNotFoundError("no such socket")
            client = BoundedClient(f"{_UNIX}{socket}", CONNECT_S)
        except (DockerException, RequestException, OSError) as error:
            failures.append(f"{name} at {_UNIX}{socket}: {_reason(error)}")
        else:
            client.api.timeout = REQUEST_S
            return client
    raise EngineError(f"No container engine is available. Tried {'; '.join(failures)}.", hint=HINT)


def _reason(error: Exception) -> str:
    """Describe the innermost cause; the outer exceptions only repeat it."""
    cause: BaseException = error
    while (
        inner := cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    ) is not None:
        cause = inner
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
