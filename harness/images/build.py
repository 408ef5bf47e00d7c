"""Run one image build on the engine's classic builder, streamed and logged."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import docker
import requests
from docker.errors import DockerException

from harness.errors import ImageError
from harness.images.compose import Declaration
from harness.progress import Progress, Task

_CHUNK = 1 << 20
_STEP = re.compile(r"^Step (\d+)/(\d+) : (.*)")
_LAYER = re.compile(r"^ ---> ([0-9a-f]{12})$")
_TAIL_LINES = 12


class Build:
    """One build of what a declaration says.

    Args:
        client: the engine.
        declaration: what to build, its context laid out.
        log: file that gets everything the builder says.
        progress: gets a bar over the context's bytes, then one over the steps.
    """

    def __init__(
        self, client: docker.DockerClient, declaration: Declaration, log: Path, progress: Progress
    ) -> None:
        self._client = client
        self._declaration = declaration
        self._log = log
        self._progress = progress
        self._made: list[str] = []

    def run(self) -> str:
        """Build, tag and return the image's content id.

        Raises:
            ImageError: the build failed; the message has its last lines and the log's path.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._log.open("w", encoding="utf-8") as log:
                self._follow(self._start(), log)
            return str(self._client.images.get(self._declaration.image).id)
        finally:
            self._remove_leftovers()

    def _start(self) -> Iterator[dict[str, Any]]:
        declaration = self._declaration
        size = sum(path.stat().st_size for path in declaration.context.rglob("*") if path.is_file())
        with self._progress.task(f"{declaration.target} image: sending wheels", size, "B") as bar:
            # requests streams any iterable of bytes; the context is never in memory as a whole.
            stream = cast(Any, _counted(tar_stream(declaration.context), bar))
            return iter(
                self._client.api.build(
                    fileobj=stream, custom_context=True, dockerfile=declaration.dockerfile,
                    tag=declaration.image, target=declaration.stage, network_mode=declaration.network,
                    buildargs=dict(declaration.args), rm=True, forcerm=True, pull=False, decode=True,
                )
            )  # fmt: skip

    def _follow(self, events: Iterator[dict[str, Any]], log: TextIO) -> None:
        reused = False
        with self._progress.task(f"{self._declaration.target} image: building", 1.0) as bar:
            for event in events:
                text = str(event.get("stream") or event.get("error") or "")
                log.write(text)
                for line in text.splitlines():
                    if step := _STEP.match(line):
                        bar.advance(1 / int(step[2]))
                        bar.note(step[3][:60])
                        # What FROM names is the user's own base, or a stage that is counted already.
                        reused = step[3].upper().startswith("FROM ")
                    elif "Using cache" in line:
                        reused = True
                    elif (layer := _LAYER.match(line)) and not reused:
                        self._made.append(layer[1])
                if "error" in event:
                    log.flush()
                    raise self._error(str(event["error"]))

    def _error(self, message: str) -> ImageError:
        if "no space left on device" in message.lower():
            return ImageError(
                f"The engine's disk filled up while the {self._declaration.target} image was built.",
                hint="Free some space there (`docker system df`, `docker image prune`): the CUDA image "
                f"takes 7 GB and its build twice as much for a while. Log: {self._log}",
            )
        lines = [line for line in self._log.read_text(encoding="utf-8").splitlines() if line.strip()]
        tail = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])
        return ImageError(
            f"The {self._declaration.target} image could not be built: {message.strip()}\n{tail}\n",
            hint=f"The whole log is in {self._log}; a base of your own needs Python 3.13 with venv.",
        )

    def _remove_leftovers(self) -> None:
        """Remove the layers that only the build needed, gigabytes for CUDA, however it ended.

        They would serve a later build of the same content, which the image's name already spares, and
        after a full disk they are what fills it. Nothing with descendants goes: the engine refuses.
        """
        for layer in reversed(self._made):
            with suppress(DockerException, requests.RequestException):
                found = self._client.images.get(layer)
                if not found.tags and not found.attrs.get("RepoDigests"):
                    # The base may have no name either, and goes as a parent unless told not to.
                    self._client.images.remove(str(found.id), noprune=True)


def tar_stream(folder: Path) -> Iterator[bytes]:
    """Yield `folder` as a tar, file by file, the same bytes for the same files."""
    for path in sorted(folder.rglob("*")):
        info = tarfile.TarInfo(path.relative_to(folder).as_posix())
        if path.is_dir():
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            yield info.tobuf()
            continue
        with path.open("rb") as file:
            info.size, info.mode = os.fstat(file.fileno()).st_size, 0o644
            yield info.tobuf()
            while chunk := file.read(_CHUNK):
                yield chunk
        yield b"\0" * (-info.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _counted(chunks: Iterator[bytes], bar: Task) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        bar.advance(len(chunk))
