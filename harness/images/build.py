"""Build one image from its context: by BuildKit where a client of it is installed, else by the classic builder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import docker
import requests
from docker.errors import DockerException

from harness.errors import ImageError
from harness.progress import Progress, Task

# The network would make a build depend on more than its context.
_NETWORK = "none"
_CHUNK = 1 << 20
_TAIL_LINES = 12
_MOUNTED = re.compile(r"^(FROM (\S+) AS) (\w+)\nRUN --mount=type=bind,target=/mnt (.*)$", re.MULTILINE)
_COPIED = (
    r"\1 install\nCOPY . /mnt/\nRUN \4\n\n\1 \3\nCOPY --from=install /opt /opt\nCOPY --from=install /etc /etc"
)
_LAYER = re.compile(r"^ ---> ([0-9a-f]{12})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """What to build.

    Attributes:
        target: stage of the Dockerfile.
        context: folder with the Dockerfile and all that it needs.
        tag, base: names of the image to make and of the one to start from.
        log: file that gets everything the builder says.
    """

    target: str
    context: Path
    tag: str
    base: str
    log: Path


def build(client: docker.DockerClient, order: BuildOrder, progress: Progress) -> None:
    """Build and tag an image.

    Raises:
        ImageError: the build failed; the message has its last lines and the log's path.
    """
    order.log.parent.mkdir(parents=True, exist_ok=True)
    environment = _client_environment(client)
    command = find_buildkit(environment) if environment else None
    if command is not None:
        _build_by_client(client, command, environment, order, progress)
        return
    progress.line(
        "No docker client with BuildKit is installed: the classic builder copies every wheel and is "
        "several times slower. Docker's own packages bring BuildKit (docker-buildx-plugin)."
    )
    build_classic(client, order, progress)


def find_buildkit(environment: Mapping[str, str]) -> str | None:
    """Return a `docker` command that builds with BuildKit on the engine that `environment` names."""
    folders = [*os.get_exec_path(environment), "/usr/bin"]
    found = (shutil.which("docker", path=folder) for folder in folders)
    for command in dict.fromkeys(filter(None, found)):
        with suppress(OSError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [command, "build", "--help"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
            if answer.returncode == 0 and "--progress" in answer.stdout:
                return command
    return None


def _client_environment(client: docker.DockerClient) -> dict[str, str]:
    """Return with what the docker command reaches the engine of `client`; empty where BuildKit is out of reach."""
    socket = getattr(client.api.get_adapter(client.api.base_url), "socket_path", None)
    components = [str(part.get("Name", "")) for part in client.version().get("Components") or ()]
    if socket is None or any(name.startswith("Podman") for name in components):
        return {}
    settings = {
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_BUILDKIT": "1",
        # Another builder would keep the image to itself; attestations hold the time of the build.
        "BUILDX_BUILDER": "default",
        "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
    }
    return {**os.environ, **settings}


def _arguments(order: BuildOrder) -> list[str]:
    return [
        "build", "--progress=plain", f"--network={_NETWORK}", f"--target={order.target}", f"--tag={order.tag}",
        f"--build-arg=BASE={order.base}", "--build-arg=SOURCE_DATE_EPOCH=0", str(order.context),
    ]  # fmt: skip


def _build_by_client(
    client: docker.DockerClient,
    command: str,
    environment: Mapping[str, str],
    order: BuildOrder,
    progress: Progress,
) -> None:
    before = _cache_records(client)
    with (
        order.log.open("w", encoding="utf-8") as log,
        progress.task(f"{order.target} image", None) as spinner,
    ):
        status = run_shown([command, *_arguments(order)], log, spinner, environment)
    # The engine would keep a copy of the wheels, and the image's files after the image is removed.
    for identity, _ in _cache_records(client) - before:
        with suppress(DockerException):
            client.api.prune_builds(filters=cast(Any, {"id": identity}), all=True)
    if status != 0:
        raise _error(order, "its builder failed.")


def run_shown(
    command: Sequence[str], log: TextIO, spinner: Task, environment: Mapping[str, str] | None = None
) -> int:
    """Run a command, with all that it prints in `log` and its last line beside the spinner; return its status."""
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                # "#6 5.748 Prepared 35 packages": the step and its seconds are of no interest.
                spinner.note(re.sub(r"^#\d+ ([\d.]+ )?", "", line.strip())[:60], minor=True)
        except BaseException:
            process.terminate()
            raise
    return process.returncode


def _cache_records(client: docker.DockerClient) -> set[tuple[str, int]]:
    """Return id and number of uses of what BuildKit keeps of builds like ours."""
    records = client.df().get("BuildCache") or ()
    return {
        (record["ID"], record["UsageCount"])
        for record in records
        if record["Type"] == "source.local" or "/mnt/image.sh" in record["Description"]
    }


def build_classic(client: docker.DockerClient, order: BuildOrder, progress: Progress) -> None:
    """Build and tag an image by the engine's classic builder, which cannot mount: a stage gets the context as a layer.

    Raises:
        ImageError: the build failed.
    """
    dockerfile = order.context / "Dockerfile"
    dockerfile.write_text(classic(dockerfile.read_text(encoding="utf-8")), encoding="utf-8")
    made: list[str] = []
    try:
        with (
            order.log.open("w", encoding="utf-8") as log,
            progress.task(f"{order.target} image", None) as spinner,
            subprocess.Popen(["tar", "-C", order.context, "-c", "."], stdout=subprocess.PIPE) as tar,
        ):
            assert tar.stdout is not None
            # requests streams any iterable of bytes; the context is never in memory as a whole.
            stream = cast(Any, iter(partial(tar.stdout.read, _CHUNK), b""))
            for event in client.api.build(
                fileobj=stream, custom_context=True, tag=order.tag, target=order.target, network_mode=_NETWORK,
                buildargs={"BASE": order.base}, rm=True, forcerm=True, pull=False, decode=True,
            ):  # fmt: skip
                text = str(event.get("stream") or event.get("error") or "")
                log.write(text)
                spinner.note(text.strip()[:60], minor=True)
                made += _LAYER.findall(text)
                if "error" in event:
                    log.flush()
                    raise _error(order, text)
    finally:
        _remove_layers(client, made, order.base)


def _remove_layers(client: docker.DockerClient, layers: Sequence[str], base: str) -> None:
    """Remove what only the build needed, gigabytes for CUDA. Nothing with descendants goes: the engine refuses."""
    keep = client.images.get(base).id
    for layer in reversed(layers):
        with suppress(DockerException, requests.RequestException):
            image = client.images.get(layer)
            if image.id != keep and not image.tags and not image.attrs.get("RepoDigests"):
                # The base may have no name either, and goes as a parent unless told not to.
                client.images.remove(str(image.id), noprune=True)


def classic(dockerfile: str) -> str:
    """Return `dockerfile` for a builder that cannot mount."""
    return _MOUNTED.sub(_COPIED, dockerfile)


def _error(order: BuildOrder, message: str) -> ImageError:
    lines = [line for line in order.log.read_text(encoding="utf-8").splitlines() if line.strip()]
    tail = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])
    if "no space left on device" in f"{message} {tail}".lower():
        return ImageError(
            f"The engine's disk filled up while the {order.target} image was built.",
            hint="Free some space there (`docker system df`, `docker builder prune`): the CUDA image takes 6 GB "
            f"and its build half as much again. Log: {order.log}",
        )
    return ImageError(
        f"The {order.target} image could not be built: {message.strip()}\n{tail}\n",
        hint=f"The whole log is in {order.log}; a base of your own needs Python 3.13 with venv.",
    )
