"""Where a container engine may be listening on this machine, in the order in which Docker's command line looks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.context import ContextAPI
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
    "tfbench runs on. For this machine's own engine unset DOCKER_HOST or choose `docker context use default`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A socket to try: `why` names the setting that it comes from."""

    url: str
    why: str


def endpoints(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the endpoints to try in order.

    DOCKER_HOST, and a context that was chosen, stand alone: another engine is not what the user asked for.

    Raises:
        EngineError: the settings name a context that does not exist, or another machine.
    """
    chosen = _from_host(environment) or _from_context(environment)
    if chosen is not None:
        return (_checked(chosen),)
    return (
        Endpoint(url="unix:///var/run/docker.sock", why="Docker"),
        Endpoint(url=f"unix://{_runtime(environment)}/docker.sock", why="rootless Docker"),
        *_podman_sockets(environment),
    )


def podman_endpoints(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the endpoints to try in order where Podman was asked for by name.

    CONTAINER_HOST, which Podman's own command line reads, and DOCKER_HOST stand alone. Docker contexts do not
    count.

    Raises:
        EngineError: the settings name another machine.
    """
    if environment.get("CONTAINER_HOST"):
        return (_checked(Endpoint(url=environment["CONTAINER_HOST"], why="CONTAINER_HOST")),)
    chosen = _from_host(environment)
    return (_checked(chosen),) if chosen else _podman_sockets(environment)


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


def _podman_sockets(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    return (
        Endpoint(url=f"unix://{_runtime(environment)}/podman/podman.sock", why="Podman"),
        Endpoint(url="unix:///run/podman/podman.sock", why="Podman of the system"),
    )


def _runtime(environment: Mapping[str, str]) -> str:
    return environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"


def _from_host(environment: Mapping[str, str]) -> Endpoint | None:
    url = environment.get("DOCKER_HOST")
    return Endpoint(url=url, why="DOCKER_HOST") if url else None


def _from_context(environment: Mapping[str, str]) -> Endpoint | None:
    name = environment.get("DOCKER_CONTEXT") or None
    try:
        context = ContextAPI.get_context(name)
    # A context's files are read without much care: a broken one raises a plain Exception.
    except Exception as error:
        raise EngineError(
            f"The Docker settings of this account cannot be used: {error}",
            hint="Check DOCKER_CONTEXT and `docker context ls`.",
        ) from error
    if context is None:
        raise EngineError(
            f"There is no Docker context {name or 'of the name in config.json'}.",
            hint="Choose one with `docker context use`, or unset DOCKER_CONTEXT.",
        )
    if context.Name == "default" or not context.Host:
        return None
    return Endpoint(url=context.Host, why=f"Docker context {context.Name}")


def _checked(endpoint: Endpoint) -> Endpoint:
    if not endpoint.url.startswith(_UNIX):
        raise EngineError(
            f"{endpoint.why} names an engine on another machine, {endpoint.url}.", hint=ELSEWHERE_HINT
        )
    return endpoint


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
