"""Connect to an engine with Docker's API: its socket, its properties, and calls that raise EngineError."""

from __future__ import annotations

import os
import platform
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import BadStatusLine, HTTPException
from pathlib import Path
from typing import Any

import docker
import psutil
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, InvalidVersion, NotFound, StreamParseError
from docker.utils import version_lt
from docker.utils.config import find_config_file
from requests import PreparedRequest, Response
from requests.exceptions import (
    HTTPError,
    JSONDecodeError,
    ReadTimeout,
    RequestException,
    Timeout,
    TooManyRedirects,
)
from urllib3.exceptions import HTTPError as SocketError

from harness.errors import EngineError
from harness.model.platform import EngineInfo
from harness.untrusted import printable

# Timeout after a request that was not answered, so that requests to a dead engine do not add up.
_SILENT_S = 2.0
LOST = (DockerException, RequestException, SocketError, HTTPException, OSError, struct.error)
CONNECT_S = 10
# Timeout of a request that may copy an image.
REQUEST_S = 120
_MOST_EXIT_CODE = 255
MAX_ANSWER_BYTES = 64 << 20
# Of Docker's API: the first that hands GPUs to containers.
_OLDEST = "1.40"
_UNIX = "unix://"
HINT = (
    "Install and start an engine with `make engine`. If access "
    "is denied, run `sudo usermod -aG docker $USER` and log in again. If it uses another socket, set "
    "DOCKER_HOST=unix:///path/to/socket. To run without containers, use --engine local (make bench ENGINE=local)."
)
ELSEWHERE_HINT = (
    "Telemetry is read locally: run tfbench on that machine, or use `tfbench fleet` for several machines. To use "
    "this machine's engine, unset DOCKER_HOST and DOCKER_CONTEXT."
)
_STRANGE = "Update it, or check what answers at its socket."
_NO_PYTHON = (
    "Containers start python3: an image of --image needs it in its PATH, and --env PATH=... replaces that. Leave it "
    "out, or add /usr/local/bin:/usr/bin:/bin to it."
)
_NOT_FOR_ROOT = (
    "The engine runs as root, which may not read this folder: a share that FUSE mounts (sshfs, rclone) is open to its "
    "user alone. Mount it with `-o allow_other`, use another folder, or run without containers: --engine local."
)
_NOT_SEEN = (
    "The engine does not see this folder: it may be mounted for this process alone (systemd's PrivateTmp, a snap), or "
    "the engine is on another machine. Use another folder, such as with --out, or run without containers: "
    "--engine local."
)
_SEE_LOG = "See its log (journalctl -u docker), or run `tfbench doctor`."
# What an engine's refusal to start a container says -> what to try.
_HINTS = {
    r"\$PATH": _NO_PYTHON, "(?s)mount.*permission denied": _NOT_FOR_ROOT, "bind source path does not exist": _NOT_SEEN,
}  # fmt: skip
# Limit -> field that reports whether the engine supports it; rootless engines often do not.
_LIMITS = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu_quota": "CpuCfsQuota", "cpuset": "CPUSet"}


# What the docker package and this one raise while they read an answer that is not as Docker's API says.
UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, RecursionError, StreamParseError)


class _Client(docker.DockerClient):
    def __init__(self, base_url: str, timeout_s: int) -> None:
        self.api = _Api(base_url=base_url, version="auto", timeout=timeout_s)


class _Api(docker.APIClient):
    """An API whose timeout covers a whole answer of limited size; it is short after one that did not come."""

    _silent = False

    def create_container(self, *args: Any, **options: Any) -> Any:
        # Proxies of Docker's config.json may have a password, which an image would keep and a script could print.
        return super().create_container(*args, **{**options, "use_config_proxy": False})

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        call = partial(self._answer, request, options)
        if (limit_s := options.get("timeout")) is None:
            return call()
        if self._silent:
            limit_s = options["timeout"] = min(limit_s, _SILENT_S)
        try:
            response = _within(limit_s, call)
        except Timeout:
            self._silent = True
            raise
        self._silent = False
        return response

    def _answer(self, request: PreparedRequest, options: Mapping[str, Any]) -> Response:
        response = super().send(request, **{**options, "stream": True})
        if not options.get("stream"):
            with response:
                response._content = read_limited(response.iter_content(1 << 16))
        return response


def id_of(answer: Mapping[str, Any]) -> str:
    """Return the ID in an answer of the engine; raise TypeError if it is no text."""
    if not isinstance(found := answer["Id"], str):
        raise TypeError(f"an ID that is {type(found).__name__}")
    return found


def read_limited(chunks: Iterable[bytes]) -> bytes:
    """Return an answer of the engine as a whole; raise RequestException if it is too large."""
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise RequestException(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB")
    return bytes(content)


def _within(limit_s: float, call: Callable[[], Response]) -> Response:
    """Return what the call returns, or raise ReadTimeout: the timeout of a socket is that of each byte."""
    future: Future[Response] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="engine-request", daemon=True).start()
    except RuntimeError:  # no more can be started, and a container is to be removed
        return call()
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise ReadTimeout(f"no whole answer in {limit_s:g} s") from None


@contextmanager
def engine_call(action: str) -> Iterator[None]:
    """Convert errors of the docker package to EngineError; `action` completes "could not ..."."""
    try:
        yield
    except APIError as error:
        reason = str(error.explanation or error)
        raise EngineError(
            f"The container engine could not {action}: {reason}",
            hint=next((hint for sign, hint in _HINTS.items() if re.search(sign, reason)), _SEE_LOG),
        ) from error
    except UNREADABLE as error:
        raise _unreadable(action, error) from error
    except LOST as error:
        raise EngineError(
            f"Lost the connection to the container engine, which was to {action}: {_reason(error)}",
            hint="Restart the engine (`make engine`), then run this again; a run that has begun goes on with --resume.",
        ) from error
    except Exception as error:
        if type(error) is not Exception:  # what the docker package raises for an image that is no object
            raise
        raise _unreadable(action, error) from error


def _unreadable(action: str, error: Exception) -> EngineError:
    return EngineError(
        f"The container engine could not {action}: its answer cannot be read: {_fault(error)}",
        hint=_STRANGE,
    )


@contextmanager
def timeout(api: docker.APIClient, seconds: int) -> Iterator[None]:
    """Give requests in the block another timeout."""
    usual, api.timeout = api.timeout, seconds
    try:
        yield
    finally:
        api.timeout = usual


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


def exit_code(answer: Any) -> int:
    """Return the exit code that an engine's answer to a wait tells; raise ValueError if that is none."""
    code = answer["StatusCode"]
    if type(code) is not int or not 0 <= code <= _MOST_EXIT_CODE:
        raise ValueError(f"{printable(repr(code)[:40])} is no exit code")
    return code


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


def endpoints(environment: Mapping[str, str]) -> dict[Path, str]:
    """Return the sockets to try, in order, with their names; only that of DOCKER_HOST or DOCKER_CONTEXT if set.

    Args:
        environment: environment variables; DOCKER_HOST, DOCKER_CONTEXT and XDG_RUNTIME_DIR are used.

    Raises:
        EngineError: they name no socket of this machine, or there is no such context.
    """
    host, context = environment.get("DOCKER_HOST", ""), environment.get("DOCKER_CONTEXT", "")
    source = "DOCKER_HOST" if host else "DOCKER_CONTEXT"
    if url := host or _host_of(context):
        if not url.startswith(_UNIX):
            raise EngineError(
                f"{source} names no socket of this machine: {url.rpartition('@')[2]}.", hint=ELSEWHERE_HINT
            )
        return {Path(url.removeprefix(_UNIX)): source}
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return {
        Path("/var/run/docker.sock"): "Docker",
        runtime / "docker.sock": "rootless Docker",
    }


def _host_of(context: str) -> str:
    """Return the URL of a context of the docker command; "" for none."""
    if context in ("", "default"):
        return ""
    found = ContextAPI.get_context(context)
    if found is None:
        raise EngineError(
            f"DOCKER_CONTEXT={context} is no context.",
            hint="Choose from `docker context ls`, or unset DOCKER_CONTEXT.",
        )
    return str(found.Host)


def _damaged_config() -> EngineError:
    return EngineError(
        "Docker's config.json is damaged: it is no file, holds no JSON object, is nested too deeply, or its proxies "
        "are no object.",
        hint="Mend or remove it: ~/.docker/config.json, or in the folder $DOCKER_CONFIG.",
    )


def connect_first(sockets: Mapping[Path, str], timeout_s: float = CONNECT_S) -> docker.DockerClient:
    """Return a client for the first socket that responds in time.

    Raises:
        EngineError: none responds; the message gives the reason for each.
    """
    config = str(find_config_file() or "")
    if config and not Path(config).is_file():  # a pipe would be waited for
        raise _damaged_config()
    failures, hint = [], HINT
    for socket, name in sockets.items():
        try:
            if not socket.exists():
                raise FileNotFoundError("no such socket")
            client = _Client(f"{_UNIX}{socket}", timeout_s)  # type: ignore[arg-type]  # the stubs know whole seconds only
            if version_lt(client.api.api_version, _OLDEST):
                raise InvalidVersion(f"API {client.api.api_version}; Docker has {_OLDEST} since 19.03")
        # The docker package expects an object that is not nested deeply.
        except (AttributeError, TypeError, RecursionError) as error:
            raise _damaged_config() from error
        except (DockerException, RequestException, OSError, ValueError) as error:
            if strange := _strange(error):
                hint = _STRANGE
            failures.append(f"{name} at {_UNIX}{socket}: {strange or _reason(error)}")
        else:
            client.api.timeout = REQUEST_S
            return client
    reasons = "; ".join(failures).rstrip(".")
    raise EngineError(f"No container engine is available. Tried {reasons}.", hint=hint)


def _strange(error: Exception) -> str:
    """Return why an answer about the version cannot be used; "" if there was none, or the engine refused."""
    cause = error.__cause__ or error
    if type(_innermost(error)) is BadStatusLine:  # its text is the whole first line
        return "its answer is not HTTP, so it may be another program's"
    if isinstance(_innermost(error), (RecursionError, TooManyRedirects)):
        return "its answer is not Docker's, so it may be another program's"
    if isinstance(cause, InvalidVersion):
        return f"it is too old: {cause}"
    if isinstance(cause, JSONDecodeError):
        return "its answer is not JSON, so it may be another program's"
    if isinstance(cause, APIError) and str(cause.explanation).lstrip().startswith("<"):
        return f"it answered with a web page, so it may be another program's (status {cause.status_code})"
    if type(cause) is DockerException or isinstance(cause, (LookupError, TypeError, ValueError)):
        if isinstance(cause, RequestException):
            return ""
        if type(cause) is not DockerException and not isinstance(cause.__context__, HTTPError):
            return "its answer is not Docker's, so it may be another program's"
        return f"its answer cannot be read: {_fault(cause)}"
    return ""


def _fault(error: BaseException) -> str:
    """Return what is wrong with an answer: of an error of the engine that lacks its message, the status."""
    if isinstance(refused := error.__context__, HTTPError) and refused.response is not None:
        return f"status {refused.response.status_code} without a message"
    return f"{type(error).__name__}: {error}"


def _reason(error: Exception) -> str:
    """Describe the innermost cause, which the outer exceptions only repeat, or what the engine itself says."""
    cause = _innermost(error)
    if isinstance(cause, APIError) and cause.explanation:
        return str(cause.explanation)
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def _innermost(error: BaseException) -> BaseException:
    """Return the cause of an error that has none itself, or the first that tells more than its own cause."""
    while (
        inner := error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    ) is not None:
        error = inner
        if type(error) is BadStatusLine or (isinstance(error, APIError) and error.explanation):
            break
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Properties of the engine that affect container options.

    Attributes:
        user_namespaces: container users are remapped by default (userns-remap).
        selinux: containers get SELinux labels.
        limits: supported limits: "memory", "pids", "cpu_quota", "cpuset".
        image_folder: folder of its images; / if unknown.
    """

    info: EngineInfo
    user_namespaces: bool = False
    selinux: bool = False
    limits: frozenset[str] = frozenset(_LIMITS)
    image_folder: Path = Path("/")


def describe(client: docker.DockerClient) -> Daemon:
    """Describe the engine; raise EngineError if it does not share this machine's files and process ids."""
    version: dict[str, Any] = client.version()
    info: dict[str, Any] = client.info()
    _check_shared(info)
    security = [option.removeprefix("name=").split(",")[0] for option in info.get("SecurityOptions") or ()]
    cgroup = str(info.get("CgroupVersion") or "")
    return Daemon(
        info=EngineInfo(
            name="docker",
            version=str(version.get("Version", "")),
            isolated=True,
            rootless="rootless" in security,
            cgroup_version=int(cgroup) if cgroup.isdigit() else None,
            runtimes=tuple(sorted(info.get("Runtimes") or {})),
            cdi_folders=tuple(info.get("CDISpecDirs") or ()),
        ),
        user_namespaces="userns" in security,
        selinux="selinux" in security,
        limits=frozenset(name for name, key in _LIMITS.items() if info.get(key, True)),
        image_folder=Path(info.get("DockerRootDir") or "/"),
    )


def _check_shared(info: Mapping[str, Any]) -> None:
    """Check that the engine shares this machine's kernel and files.

    Docker Desktop's engine runs in a virtual machine with a different kernel. A container with access to the
    host's socket has a different host name.
    """
    if (info.get("Name"), info.get("KernelVersion"), info.get("MemTotal")) != (
        platform.node(),
        platform.release(),
        psutil.virtual_memory().total,
    ):
        raise EngineError(
            "The container engine runs on another machine, in a virtual machine or outside this container.",
            hint="Run tfbench where the engine runs: it mounts local folders and reads local telemetry.",
        )
