"""Wrappers of docker package calls that raise EngineError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from harness.errors import EngineError

LOST = (DockerException, RequestException, HTTPError, HTTPException, OSError)


@contextmanager
def engine_call(action: str) -> Iterator[None]:
    """Convert errors of the docker package to EngineError; `action` completes "could not ..."."""
    try:
        yield
    except APIError as error:
        raise EngineError(
            f"The container engine could not {action}: {error.explanation or error}",
            hint="See its log (journalctl -u docker), or run `tfbench doctor`.",
        ) from error
    except LOST as error:
        raise EngineError(
            f"Lost the connection to the container engine; could not {action}: {error}",
            hint="Restart the engine (`make engine`), then continue with --resume.",
        ) from error


def remove_container(client: docker.DockerClient, container_id: str) -> None:
    """Kill and remove a container; no error if it is gone or being removed."""
    with engine_call(f"remove container {container_id[:12]}"), suppress(NotFound):
        try:
            client.api.remove_container(container_id, force=True, v=True)
        except APIError as error:
            if error.status_code != 409:
                raise
            # It is already being removed.
            client.api.wait(container_id, condition="removed")


def signal_start(stream: Any) -> None:
    """Write the line that container_init.py waits for to a container's standard input."""
    with suppress(OSError):  # it has already ended
        getattr(stream, "_sock", stream).sendall(b"\n")


def close_stream(stream: Any) -> None:
    """Close an attached stream and its socket, to which the docker package keeps references."""
    with suppress(*LOST):
        inner = getattr(stream, "_sock", None)
        if inner is not None:
            inner.close()
        stream.close()
