"""Wrappers of docker package calls that raise EngineError."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from requests import PreparedRequest, Response
from requests.exceptions import ReadTimeout, RequestException, Timeout
from urllib3.exceptions import HTTPError

from harness.errors import EngineError

# Timeout after a request that was not answered, so that requests to a dead engine do not add up.
_SILENT_S = 2.0
LOST = (DockerException, RequestException, HTTPError, HTTPException, OSError)


class BoundedClient(docker.DockerClient):
    """A client whose requests end after their timeout, however slowly the engine sends its answer."""

    def __init__(self, base_url: str, timeout_s: int) -> None:
        self.api = _BoundedApi(base_url=base_url, version="auto", timeout=timeout_s)


class _BoundedApi(docker.APIClient):
    _silent = False

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        limit_s = options.get("timeout")
        if limit_s is None:
            return super().send(request, **options)
        answer: Future[Response] = Future()
        send = super().send

        def complete() -> None:
            try:
                answer.set_result(send(request, **options))
            except Exception as error:
                answer.set_exception(error)

        # The timeout of requests is that of each byte.
        threading.Thread(target=complete, name="engine-request", daemon=True).start()
        try:
            result = answer.result(min(limit_s, _SILENT_S) if self._silent else limit_s)
        except (TimeoutError, Timeout):
            self._silent = True
            raise ReadTimeout(f"no answer within {limit_s:g} s") from None
        self._silent = False
        return result


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
