"""Build images, unless they are up to date, and build contexts for docker-compose; get their base image."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.images import Image
from docker.types import Mount
from requests.exceptions import ReadTimeout

from harness.engines.docker_client import engine_call, exit_code, id_of, read_limited, timeout
from harness.errors import EngineError, ImageError, last_lines, on_disk
from harness.images.recipes import PYTHON_VERSION, TARGETS, Recipes, building
from harness.images.wheels import sbom, wheel_hashes
from harness.model.platform import ImageInfo
from harness.progress import Progress

# Timeout of a commit, which copies gigabytes.
_COMMIT_S = 3600
# Timeout of a registry's first response.
RESPONSE_S = 10

# The variables that it writes to .env; see Makefile, clean.
_OWN = re.compile(b"TFBENCH_(BASE|[A-Z_]+_IMAGE)=")


class ImageBuilder:
    """Build images, or their build contexts for docker-compose.

    Args:
        client: the engine's client; may be None for `fetch`.
        packages: libraries to add to the images.
    """

    def __init__(
        self,
        checkout: Path,
        cache: Path,
        client: docker.DockerClient | None,
        progress: Progress,
        packages: Sequence[str] = (),
    ) -> None:
        self._checkout = checkout
        self.recipes = Recipes(checkout / "images", packages=packages)
        self._cache = cache
        self._client = client
        self._progress = progress

    def existing(self, target: str) -> ImageInfo | None:
        """Return `target`'s image if the engine has an up-to-date one."""
        self.recipes.resolve(target, self._cache, self._progress)
        with engine_call("look for images"):
            for base in (self.recipes.pinned_base(), self.recipes.bootstrapped_base()):
                with suppress(ImageNotFound):
                    return self._info(target, base)
        return None

    def existing_custom(self, target: str, reference: str) -> ImageInfo | None:
        """Return a custom image if the engine has it."""
        with engine_call("look for images"), suppress(ImageNotFound):
            return _described(target, reference, self._engine.images.get(reference))
        return None

    def ensure(self, target: str) -> ImageInfo:
        """Return `target`'s image; build it if it does not exist or is out of date.

        Raises:
            ImageError: wheels or a base cannot be downloaded, or the build fails; the hint names the log.
        """
        if image := self.existing(target):
            return image
        with building(self._cache, self._progress) as folder:
            # Another process may have built it in the meantime.
            if image := self.existing(target):
                return image
            base = self._obtain_base()
            context = self.recipes.write_context(target, folder, self._cache, self._progress)
            with engine_call(f"build the {target} image"):
                self._build(target, base, context)
                return self._info(target, base)

    def fetch(self, target: str) -> Path:
        """Write `target`'s build context and .env for `docker-compose build`; return the context's folder.

        With an engine this also gets the base image; without one it refers to the pinned base.
        """
        folder = self._checkout / "images" / "context"
        with building(self._cache, self._progress):
            base = self._obtain_base()
            context = self.recipes.write_context(target, folder / target, self._cache, self._progress)
            # docker-compose 1.29 rejects its file if any service's folder is missing.
            for name in TARGETS:
                (folder / name).mkdir(exist_ok=True)
            self._write_variables(self.recipes.compose_variables(base))
        return context

    def _write_variables(self, variables: str) -> None:
        """Write variables to .env, which may also have some of the user's."""
        path = self._checkout / ".env"
        with on_disk(path):
            there = path.read_bytes() if path.exists() else b""
            others = [line for line in there.split(b"\n") if not _OWN.match(line)]
            before = b"\n".join(others)
            before += b"\n" if before and not before.endswith(b"\n") else b""
            path.write_bytes(before + variables.encode())

    def custom(self, target: str, reference: str) -> ImageInfo:
        """Return a custom image, pulled if necessary; it only needs Python and TensorFlow."""
        with engine_call(f"get the image {reference}"):
            image = pull_missing(self._engine, reference, self._progress)
        return _described(target, reference, image)

    def sbom(self, image: ImageInfo) -> bytes:
        """Return the bill of materials of an image built from a lock; see `harness.images.wheels`.

        It is kept in the cache, because hashing the CUDA wheels takes seconds. What cannot be read is left out.
        """
        path = self._cache / "sboms" / f"{image.digest.rpartition(':')[2]}.cdx.json"
        with suppress(OSError):
            return path.read_bytes()
        self.recipes.resolve(image.target, self._cache, self._progress)
        pins = self.recipes.pins(image.target)
        wheels = dict.fromkeys(pins, "")
        with suppress(OSError):
            wheels = wheel_hashes(pins, self._cache, PYTHON_VERSION)
        status, release = self._files(image.reference, "/var/lib/dpkg/status", "/usr/lib/os-release")
        distribution = re.findall(r"^ID=\"?([\w.-]+)", release, re.MULTILINE)
        document = sbom(image, wheels, status, *distribution[:1] or ["unknown"])
        if status and all(wheels.values()):
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(f".{os.getpid()}")
                partial.write_bytes(document)
                partial.replace(path)
        return document

    def _files(self, reference: str, *paths: str) -> list[str]:
        """Return the text of files of an image, "" for those that cannot be read; nothing runs in it."""
        texts = dict.fromkeys(paths, "")
        with suppress(EngineError), engine_call(f"read the packages of {reference}"):
            container = id_of(self._engine.api.create_container(reference, ["true"]))
            try:
                for path in paths:
                    with suppress(NotFound, tarfile.TarError, ValueError):
                        chunks, _ = self._engine.api.get_archive(container, path)
                        with tarfile.open(fileobj=io.BytesIO(read_limited(chunks))) as archive:
                            for file in map(archive.extractfile, archive):
                                texts[path] = file.read().decode(errors="replace") if file else ""
            finally:
                self._engine.api.remove_container(container, force=True)
        return list(texts.values())

    def _build(self, target: str, base: str, context: Path) -> None:
        """Run image.sh in a container of the base and commit it; this creates the same layer as BuildKit."""
        api, tag = self._engine.api, self.recipes.tag(target, base)
        # The cache's lock prevents concurrent builds, except by users with different caches.
        name = f"tfbench-build-{tag.partition(':')[2]}-{os.getuid()}"
        with suppress(NotFound):  # left by a killed build
            api.remove_container(name, force=True)
        # No network: the build depends only on its context. SELinux would deny access to bind mounts with
        # labels enabled.
        host = api.create_host_config(
            network_mode="none",
            security_opt=["label=disable"],
            mounts=[Mount(target="/mnt", source=str(context.absolute()), type="bind", read_only=True)],
        )
        command, entrypoint = ["sh", "/mnt/image.sh"], ["/usr/bin/env"]
        api.create_container(base, command, entrypoint=entrypoint, user="0", name=name, host_config=host)
        log = self._cache / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as file, self._progress.task(f"{target} image", None) as spinner:
                api.start(name)
                for chunk in api.attach(name, stream=True, logs=True):
                    file.write(chunk)
                    spinner.note(chunk.decode(errors="replace").strip().rpartition("\n")[2][:60])
                if exit_code(api.wait(name)) != 0:
                    file.flush()
                    raise _build_error(target, log)
                spinner.note("committing")
                repository, _, version = tag.partition(":")
                with timeout(api, _COMMIT_S):
                    api.commit(name, repository=repository, tag=version, changes=self.recipes.settings())
        finally:
            api.remove_container(name, force=True)

    def _obtain_base(self) -> str:
        pinned = self.recipes.pinned_base()
        if self._client is None:
            return pinned
        with engine_call("get a base image"):
            script = self._checkout / "images" / "base.sh"
            return obtain(self._client, pinned, self.recipes.bootstrapped_base(), script, self._progress)

    @property
    def _engine(self) -> docker.DockerClient:
        assert self._client is not None, "only fetch works without an engine"
        return self._client

    def _info(self, target: str, base: str) -> ImageInfo:
        reference = self.recipes.tag(target, base)
        image = _described(target, reference, self._engine.images.get(reference))
        return replace(image, base=base, lock_sha256=self.recipes.lock_sha256(target))


def _described(target: str, reference: str, image: Image) -> ImageInfo:
    return ImageInfo(
        target=target,
        reference=reference,
        digest=str(image.id),
        base="",
        lock_sha256="",
        contents=image_contents(image.attrs),
    )


def image_contents(attributes: dict[str, Any]) -> str:
    """Return a hash of an image's layers and settings, from its `docker inspect` attributes.

    Unlike the engine's image id, it does not depend on the time of the build.
    """
    config = attributes.get("Config") or {}
    names = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")
    settings = {name: config.get(name) or None for name in names}
    parts = {"layers": attributes["RootFS"].get("Layers"), "settings": settings}
    return f"sha256:{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}"


def _build_error(target: str, log: Path) -> ImageError:
    tail = last_lines(log.read_text(encoding="utf-8", errors="replace"))
    return ImageError(
        f"Could not build the {target} image:\n{tail}\n",
        hint=f"See the full log in {log}. Another base needs Python {PYTHON_VERSION} with venv; the CUDA image "
        "needs 12 GB on the engine's disk (`docker system df`).",
    )


def obtain(
    client: docker.DockerClient, pinned: str, bootstrapped: str, script: Path, progress: Progress
) -> str:
    """Return the pinned base or, if it cannot be pulled, the one that `script` (images/base.sh) builds."""
    for base in (pinned, bootstrapped):
        with suppress(ImageNotFound):
            client.images.get(base)
            return base
    try:
        pull_missing(client, pinned, progress)
    except ImageError as error:
        progress.line(
            f"{error.message} Building a base image from this host's distribution packages instead, with "
            "mmdebstrap; apt installs it if it is missing."
        )
        _bootstrap(client, bootstrapped, script, progress)
        return bootstrapped
    return pinned


def _bootstrap(client: docker.DockerClient, reference: str, script: Path, progress: Progress) -> None:
    repository, _, tag = reference.rpartition(":")
    with (
        tempfile.TemporaryDirectory(prefix="tfbench-base-") as folder,
        progress.task("base image from distribution packages", None),
    ):
        tar = str(Path(folder) / "base.tar")
        result = subprocess.run([script, tar], capture_output=True, text=True, errors="replace", check=False)
        if result.returncode != 0:
            raise ImageError(
                f"The base image could be neither pulled nor built:\n{last_lines(result.stderr)}",
                hint=f"Pull or load a Python {PYTHON_VERSION} image and name it in images/Dockerfile (ARG BASE).",
            )
        client.api.import_image_from_file(tar, repository=repository, tag=tag, changes=['CMD ["python3"]'])


def pull_missing(
    client: docker.DockerClient, reference: str, progress: Progress, response_s: int = RESPONSE_S
) -> Image:
    """Return an image, pulled if the engine does not have it.

    Raises:
        ImageError: the registry does not respond in time, or does not have the image.
    """
    api, name = client.api, reference.partition("@")[0]
    try:
        with suppress(ImageNotFound):
            return client.images.get(reference)
        # A pull takes minutes to time out if a firewall drops packets.
        with timeout(api, response_s), suppress(APIError):
            api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        with progress.task(f"pulling {name}", None) as spinner:
            for event in api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise _pull_error(name, str(event["error"]))
                spinner.note(f"{event.get('status')} {event.get('progress', '')}")
    except ReadTimeout as error:
        raise _pull_error(name, f"no response for {response_s} s") from error
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from error
    return client.images.get(reference)


def _pull_error(name: str, reason: str) -> ImageError:
    return ImageError(
        f"Could not pull the image {name}: {reason.strip().rstrip('.')}.",
        hint="Check the name and the engine's access to the registry, or load the image with `docker load`.",
    )
