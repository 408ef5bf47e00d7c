"""Where a container engine may be listening, in the order in which the Docker command line looks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import docker
from docker.context import ContextAPI
from docker.errors import DockerException
from docker.tls import TLSConfig
from requests.exceptions import RequestException

from harness.errors import EngineError

CONNECT_S = 10.0
# One answer, not one trial: waiting for a container's end has no limit.
ANSWER_S = 120.0
HINT = (
    "Install and start one with `make engine`; if one runs but refuses you, add yourself to its group with "
    "`sudo usermod -aG docker $USER` and log in again; or run without containers: ENGINE=local."
)
PODMAN_HINT = (
    "Start Podman's socket with `systemctl --user start podman.socket`, or as root with `systemctl start "
    "podman.socket`; or set DOCKER_HOST=unix:///path/to/podman.sock to where it listens."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One address to try: `why` names the setting that it comes from."""

    url: str
    why: str
    tls: TLSConfig | None = None


def places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the addresses to try in order.

    DOCKER_HOST, and a context that was chosen, stand alone: falling back from them to another engine
    would measure another machine than the user asked for.

    Raises:
        EngineError: the settings name a context or certificates that are not there.
    """
    try:
        if environment.get("DOCKER_HOST"):
            return (_from_host(environment),)
        chosen = _from_context(environment)
    # A context's files are read without much care: a broken one raises a plain Exception.
    except Exception as error:
        if isinstance(error, EngineError):
            raise
        raise EngineError(
            f"The Docker settings of this account cannot be used: {error}",
            hint="Look at DOCKER_HOST, DOCKER_CERT_PATH and `docker context ls`.",
        ) from error
    if chosen is not None:
        return (chosen,)
    return (
        Place(url="unix:///var/run/docker.sock", why="Docker"),
        Place(url=f"unix://{_runtime(environment)}/docker.sock", why="rootless Docker"),
        *_podman_sockets(environment),
    )


def podman_places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the addresses to try in order where Podman was asked for by name.

    CONTAINER_HOST, which Podman's own command line reads, and DOCKER_HOST stand alone. A Docker context is
    no setting of Podman's and not looked at.

    Raises:
        EngineError: the settings name certificates that are not there.
    """
    if environment.get("CONTAINER_HOST"):
        return (Place(url=environment["CONTAINER_HOST"], why="CONTAINER_HOST"),)
    return places(environment) if environment.get("DOCKER_HOST") else _podman_sockets(environment)


def _podman_sockets(environment: Mapping[str, str]) -> tuple[Place, ...]:
    return (
        Place(url=f"unix://{_runtime(environment)}/podman/podman.sock", why="Podman"),
        Place(url="unix:///run/podman/podman.sock", why="Podman of the system"),
    )


def _runtime(environment: Mapping[str, str]) -> str:
    return environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"


def dial(tried: tuple[Place, ...], hint: str = HINT) -> tuple[docker.DockerClient, Place]:
    """Return a client of the first place that answers.

    Raises:
        EngineError: none does; the message says of each why, and `hint` what to try.
    """
    failures = []
    for place in tried:
        try:
            return _client(place), place
        except (DockerException, RequestException, OSError) as error:
            failures.append(f"{place.why} at {place.url}: {_reason(error)}")
        except Exception as error:
            # paramiko's own errors share no base with anything above, and it may not be installed.
            if not place.url.startswith("ssh://"):
                raise
            failures.append(f"{place.why} at {place.url}: {_reason(error)}")
    raise EngineError(f"No container engine answers. Tried {'; '.join(failures)}.", hint=hint)


def _client(place: Place) -> docker.DockerClient:
    path = Path(place.url.removeprefix("unix://"))
    if place.url.startswith("unix://") and not path.exists():
        raise FileNotFoundError("no such socket")
    make: Callable[..., docker.DockerClient] = docker.DockerClient
    # The ssh program, as in the Docker command line: it alone knows all of ~/.ssh/config, agents,
    # jump hosts and hardware keys.
    client = make(
        base_url=_with_port(place.url) if place.url.startswith("ssh://") else place.url,
        tls=place.tls or False,
        version="auto",
        timeout=CONNECT_S,
        use_ssh_client=True,
    )
    client.api.timeout = int(ANSWER_S)
    return client


def _with_port(url: str) -> str:
    """Return an ssh URL with the port that the user's own settings give; the docker package assumes 22."""
    parts = urlsplit(url)
    if parts.port is not None or not parts.hostname:
        return url
    found = subprocess.run(
        ["ssh", "-G", "--", parts.hostname], capture_output=True, text=True, check=False, timeout=CONNECT_S
    )
    settings = dict(line.partition(" ")[::2] for line in found.stdout.splitlines())
    port = settings.get("port", "")
    return parts._replace(netloc=f"{parts.netloc}:{port}").geturl() if port else url


def _from_host(environment: Mapping[str, str]) -> Place:
    verify = bool(environment.get("DOCKER_TLS_VERIFY"))
    folder = environment.get("DOCKER_CERT_PATH") or ""
    tls = None
    if verify or folder:
        certificates = Path(folder) if folder else Path.home() / ".docker"
        tls = TLSConfig(
            client_cert=(str(certificates / "cert.pem"), str(certificates / "key.pem")),
            ca_cert=str(certificates / "ca.pem"),
            verify=verify,
        )
    return Place(url=environment["DOCKER_HOST"], why="DOCKER_HOST", tls=tls)


def _from_context(environment: Mapping[str, str]) -> Place | None:
    name = environment.get("DOCKER_CONTEXT") or None
    context = ContextAPI.get_context(name)
    if context is None:
        raise EngineError(
            f"There is no Docker context {name or 'of the name in config.json'}.",
            hint="Choose one of `docker context ls` with `docker context use`, or unset DOCKER_CONTEXT.",
        )
    if context.Name == "default" or not context.Host:
        return None
    tls = context.TLSConfig
    return Place(
        url=context.Host,
        why=f"Docker context {context.Name}",
        tls=tls if isinstance(tls, TLSConfig) else None,
    )


def _reason(error: Exception) -> str:
    """Return the innermost cause in few words; the layers above only repeat it."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
