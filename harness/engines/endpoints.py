"""Find the container engine of this machine that answers first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from harness.errors import EngineError

CONNECT_S = 10
# Of one answer; a container's end is waited for again and again.
ANSWER_S = 120
_UNIX = "unix://"
HINT = (
    "Install and start one with `make engine` (Podman: `systemctl --user start podman.socket`); if one runs but "
    "refuses you, add yourself to its group with `sudo usermod -aG docker $USER` and log in again; if it listens "
    "elsewhere, set DOCKER_HOST=unix:///path/to/socket; or run without containers: ENGINE=local."
)
ELSEWHERE_HINT = (
    "Run tfbench on that machine, or use `tfbench fleet` for several; telemetry covers only the machine that "
    "tfbench runs on. For this machine's own engine unset DOCKER_HOST."
)


def endpoints(environment: Mapping[str, str]) -> dict[Path, str]:
    """Return the sockets to try in order, each with its name; DOCKER_HOST stands alone.

    Args:
        environment: where DOCKER_HOST and XDG_RUNTIME_DIR are read from.

    Raises:
        EngineError: DOCKER_HOST names another machine.
    """
    if url := environment.get("DOCKER_HOST"):
        if not url.startswith(_UNIX):
            raise EngineError(f"DOCKER_HOST names an engine on another machine, {url}.", hint=ELSEWHERE_HINT)
        return {Path(url.removeprefix(_UNIX)): "DOCKER_HOST"}
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return {
        Path("/var/run/docker.sock"): "Docker",
        runtime / "docker.sock": "rootless Docker",
        runtime / "podman/podman.sock": "Podman",
        Path("/run/podman/podman.sock"): "Podman of the system",
    }


def connect_first(tried: Mapping[Path, str]) -> docker.DockerClient:
    """Return a client of the first socket that answers.

    Raises:
        EngineError: none does; the message gives the reason for each.
    """
    failures = []
    for socket, name in tried.items():
        try:
            if not socket.exists():
                raise FileNotFoundError("no such socket")
            client = docker.DockerClient(base_url=f"{_UNIX}{socket}", version="auto", timeout=CONNECT_S)
        except (DockerException, RequestException, OSError) as error:
            failures.append(f"{name} at {_UNIX}{socket}: {_reason(error)}")
        else:
            client.api.timeout = ANSWER_S
            return client
    raise EngineError(f"No container engine answers. Tried {'; '.join(failures)}.", hint=HINT)


def _reason(error: Exception) -> str:
    """Return the innermost cause, which outer exceptions repeat."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
