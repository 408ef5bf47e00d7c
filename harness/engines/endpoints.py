"""Where a container engine may be listening on this machine, and the first that answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from harness.errors import EngineError

CONNECT_S = 10
# One answer, not one trial: waiting for a container's end has no limit.
ANSWER_S = 120
_UNIX = "unix://"
HINT = (
    "Install and start one with `make engine`; if one runs but refuses you, add yourself to its group with "
    "`sudo usermod -aG docker $USER` and log in again; or run without containers: ENGINE=local."
)
PODMAN_HINT = (
    "Start Podman's socket with `systemctl --user start podman.socket`, or as root with `systemctl start "
    "podman.socket`; or set DOCKER_HOST=unix:///path/to/podman.sock to where it listens."
)
ELSEWHERE_HINT = (
    "Run tfbench on that machine, or use `tfbench fleet` for several; telemetry covers only the machine that "
    "tfbench runs on. For this machine's own engine unset DOCKER_HOST."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A socket to try: `why` names the setting that it comes from."""

    url: str
    why: str


def endpoints(environment: Mapping[str, str], *, podman: bool = False) -> tuple[Endpoint, ...]:
    """Return the endpoints to try in order; DOCKER_HOST stands alone, since nothing else was asked for.

    Args:
        environment: where DOCKER_HOST and XDG_RUNTIME_DIR are read from.
        podman: leave Docker's own sockets out.

    Raises:
        EngineError: DOCKER_HOST names another machine.
    """
    if url := environment.get("DOCKER_HOST"):
        if not url.startswith(_UNIX):
            raise EngineError(f"DOCKER_HOST names an engine on another machine, {url}.", hint=ELSEWHERE_HINT)
        return (Endpoint(url=url, why="DOCKER_HOST"),)
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    sockets = {
        "/var/run/docker.sock": "Docker",
        f"{runtime}/docker.sock": "rootless Docker",
        f"{runtime}/podman/podman.sock": "Podman",
        "/run/podman/podman.sock": "Podman of the system",
    }
    found = tuple(Endpoint(url=_UNIX + path, why=why) for path, why in sockets.items())
    return found[2:] if podman else found


def connect_first(tried: tuple[Endpoint, ...], hint: str = HINT) -> tuple[docker.DockerClient, Endpoint]:
    """Return a client of the first endpoint that answers.

    Raises:
        EngineError: none does; the message gives the reason for each, and `hint` what to try.
    """
    failures = []
    for endpoint in tried:
        try:
            return _client(endpoint), endpoint
        except (DockerException, RequestException, OSError) as error:
            failures.append(f"{endpoint.why} at {endpoint.url}: {_reason(error)}")
    raise EngineError(f"No container engine answers. Tried {'; '.join(failures)}.", hint=hint)


def _client(endpoint: Endpoint) -> docker.DockerClient:
    if not Path(endpoint.url.removeprefix(_UNIX)).exists():
        raise FileNotFoundError("no such socket")
    client = docker.DockerClient(base_url=endpoint.url, version="auto", timeout=CONNECT_S)
    client.api.timeout = ANSWER_S
    return client


def _reason(error: Exception) -> str:
    """Return the innermost cause in few words; the layers above only repeat it."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
