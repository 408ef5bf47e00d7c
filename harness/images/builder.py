"""Give images by target, each built at most once for the same content, and build contexts for docker-compose."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from harness.errors import EngineError, ImageError
from harness.images.bases import obtain, pull_missing
from harness.images.build import BuildOrder, build
from harness.images.build_context import PYTHON_VERSION, TARGETS, Base, Recipes, compose_variables, update_env
from harness.images.wheels import fetch_wheels
from harness.model.run import ImageInfo
from harness.progress import Progress, Silent
from harness.system.file_locks import filling


class ImageBuilder:
    """Give images by target, and build contexts for people who build them with compose.

    Args:
        checkout: the folder that holds docker-compose.yml and images/.
        cache: root of the cache.
        client: the engine; None where none answers, which is enough for `fetch`.
        progress: where bars and remarks go.
    """

    def __init__(
        self, checkout: Path, cache: Path, client: docker.DockerClient | None, progress: Progress
    ) -> None:
        self._checkout = checkout
        self._recipes = Recipes(checkout / "images")
        self._cache = cache
        self._client = client
        self._progress = progress

    def existing(self, target: str, base: str | None = None) -> ImageInfo | None:
        """Return `target`'s image if the engine holds it for the present content, in milliseconds.

        Args:
            target: one of TARGETS.
            base: the user's own base image; None for the pinned or the bootstrapped one.

        Raises:
            EngineError: no engine answers.
        """
        client = self._engine()
        with _engine_errors():
            bases = (
                (self._recipes.pinned_base(), self._recipes.bootstrapped_base())
                if base is None
                else (self._own_base(client, base),)
            )
            for candidate in bases:
                try:
                    return self._info(client, target, candidate)
                except ImageNotFound:
                    continue
        return None

    def ensure(self, target: str, base: str | None = None) -> ImageInfo:
        """Return `target`'s image, built if the engine does not hold it for the present content.

        Raises:
            EngineError: no engine answers.
            ImageError: wheels or a base cannot be had, or the build fails; the message has the log's path.
        """
        if image := self.existing(target, base):
            return image
        client = self._engine()
        with self._turn():
            # Whoever held the lock may have built it.
            if image := self.existing(target, base):
                return image
            with _engine_errors():
                _check_architecture(client)
                chosen = self._choose_base(base)
                with self._context(target) as context:
                    tag = self._recipes.tag(target, chosen)
                    log = self._cache / "logs" / f"build-{tag.replace(':', '-')}.log"
                    order = BuildOrder(
                        target=target, context=context, tag=tag, base=chosen.reference, log=log
                    )
                    build(client, order, self._progress)
                return self._info(client, target, chosen)

    def fetch(self, target: str, base: str | None = None) -> Path:
        """Lay out `target`'s build context and .env for `docker-compose build`; return the context's folder.

        With an engine at hand its base image is seen to as well; without one the pinned base is named.

        Raises:
            ImageError: wheels or a base cannot be had.
        """
        with self._turn(), _engine_errors():
            chosen = self._choose_base(base)
            wheels = self._wheels(target)
            folder = self._checkout / "images" / "context"
            try:
                # docker-compose 1.29 refuses the whole file while one service's folder is missing.
                for each in TARGETS:
                    (folder / each).mkdir(parents=True, exist_ok=True)
                self._recipes.lay_out(target, folder / target, wheels)
                update_env(self._checkout / ".env", compose_variables(self._recipes, chosen))
            except OSError as error:
                raise ImageError(
                    f"The build context {folder} cannot be written: {error.strerror}.",
                    hint="Free some space, or make the checkout writable.",
                ) from error
            return folder / target

    @contextmanager
    def _context(self, target: str) -> Iterator[Path]:
        """Give a build context that is gone after the build; a killed one's is replaced by the next."""
        folder = self._cache / "context"
        try:
            self._recipes.lay_out(target, folder, self._wheels(target))
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _wheels(self, target: str) -> tuple[Path, ...]:
        return fetch_wheels(self._recipes.pins(target), self._cache, PYTHON_VERSION, self._progress)

    def _choose_base(self, base: str | None) -> Base:
        pinned = self._recipes.pinned_base()
        if self._client is None:
            return pinned if base is None else Base(reference=base, identity=base)
        if base is not None:
            return self._own_base(self._client, base)
        script = self._checkout / "images" / "base.sh"
        return obtain(self._client, pinned, self._recipes.bootstrapped_base(), script, self._progress)

    def _own_base(self, client: docker.DockerClient, reference: str) -> Base:
        """Return the user's own base, pulled if it is not here; its content id is part of its identity."""
        image_id = pull_missing(client, reference, self._progress)
        return Base(
            reference=reference, identity=f"{reference}@{image_id}", note="base image of the user's own"
        )

    def _engine(self) -> docker.DockerClient:
        if self._client is None:
            raise EngineError(
                "Images cannot be built: no container engine answers.",
                hint="Start one (`make engine`), or only fetch the wheels with --fetch-only.",
            )
        return self._client

    def _info(self, client: docker.DockerClient, target: str, base: Base) -> ImageInfo:
        reference = self._recipes.tag(target, base)
        image = client.images.get(reference)
        return ImageInfo(
            target=target,
            reference=reference,
            digest=str(image.id),
            base=base.reference,
            lock_sha256=self._recipes.lock_sha256(target),
            contents=image_contents(image.attrs),
            note=base.note,
        )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        try:
            with filling(self._cache / "images.lock", self._progress):
                yield
        except OSError as error:
            full = error.errno == errno.ENOSPC
            raise ImageError(
                f"The cache {self._cache} cannot be written: {error.strerror}.",
                hint="Free some space." if full else "Set TFBENCH_CACHE to a folder of yours.",
            ) from error


def image_contents(attributes: dict[str, Any]) -> str:
    """Return a hash of an image's files and settings, the same whoever built it and when.

    The engine's content id also covers the time of the build, unless its builder is BuildKit 0.11 or newer.

    Args:
        attributes: what the engine says of the image.
    """
    settings = attributes.get("Config") or {}
    kept = {name: settings.get(name) for name in ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")}
    parts = {"layers": attributes["RootFS"].get("Layers"), "settings": kept}
    return f"sha256:{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}"


def user_image(
    client: docker.DockerClient, target: str, reference: str, progress: Progress | None = None
) -> ImageInfo:
    """Return an image of the user's own for `target`, pulled if it is not here.

    It needs nothing but Python and TensorFlow.

    Raises:
        ImageError: it is neither here nor can it be pulled.
        EngineError: no engine answers.
    """
    with _engine_errors():
        digest = pull_missing(client, reference, progress or Silent())
        return ImageInfo(
            target=target,
            reference=reference,
            digest=digest,
            base="",
            lock_sha256="",
            contents=image_contents(client.images.get(digest).attrs),
            note="image of the user's own; not built from this repository's locks",
        )


def _check_architecture(client: docker.DockerClient) -> None:
    architecture = client.version().get("Arch", "amd64")
    if architecture not in {"amd64", "x86_64"}:
        raise ImageError(
            f"The engine runs on {architecture}; the images' wheels are for x86_64 only.",
            hint="Use an x86_64 host, or an image of your own: --image cpu=REF.",
        )


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn what the docker package raises into errors of ours."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        reason = (error.explanation if isinstance(error, APIError) else None) or error
        raise EngineError(
            f"The container engine could not do its part: {reason}.",
            hint="Check it with `docker info` and its log; `make engine` starts one.",
        ) from error
