"""Calls of the docker package, with EngineError for its errors."""

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
def engine_call(doing: str) -> Iterator[None]:
    """Turn the docker package's errors into EngineError; `doing` completes "could not ..."."""
    try:
        yield
    except APIError as error:
        raise EngineError(
            f"The container engine could not {doing}: {error.explanation or error}",
            hint="See its log (journalctl -u docker), or run `tfbench doctor`.",
        ) from error
    except LOST as error:
        raise EngineError(
            f"The container engine stopped answering; could not {doing}: {error}",
            hint="Restart it (`make engine`), then continue with --resume.",
        ) from error


def remove_container(client: docker.DockerClient, identity: str) -> None:
    """Kill and remove a container; no error if it is gone or being removed."""
    with engine_call(f"remove container {identity[:12]}"), suppress(NotFound):
        try:
            client.api.remove_container(identity, force=True, v=True)
        except APIError as error:
            if error.status_code != 409:
                raise
            # It is being removed already.
            client.api.wait(identity, condition="removed")


def say_started(stream: Any) -> None:
    """Write to a container's attached input that it has started; see init.py."""
    with suppress(OSError):  # it has ended already
        getattr(stream, "_sock", stream).sendall(b"\n")


def hang_up(stream: Any) -> None:
    """Close an attached stream and its socket, to which the docker package keeps references."""
    with suppress(*LOST):
        inner = getattr(stream, "_sock", None)
        if inner is not None:
            inner.close()
        stream.close()
